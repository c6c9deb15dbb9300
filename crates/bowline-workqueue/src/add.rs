//! How a key is to be added.

use std::time::Duration;

use bowline_clock::Instant;

use crate::machine::Addition;

/// What goes with a key into [`WorkQueue::add_with`](crate::WorkQueue::add_with): by default, now, with priority
/// zero.
///
/// ```
/// use std::time::Duration;
/// use bowline_workqueue::Add;
///
/// let low_and_late = Add::new(()).priority(-100).after(Duration::from_secs(5));
/// # let _ = low_and_late;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "pass it to `WorkQueue::add_with`"]
pub struct Add<P = ()> {
    pub(crate) payload: P,
    pub(crate) priority: Option<i32>,
    pub(crate) after: Option<Duration>,
    pub(crate) at: Option<Instant>,
    pub(crate) rate_limited: bool,
}

impl<P> Add<P> {
    /// Now, with `payload`.
    pub fn new(payload: P) -> Self {
        Self { payload, priority: None, after: None, at: None, rate_limited: false }
    }

    /// Higher ones are handed out first. By default zero, or the priority of the run in progress if the key is
    /// with a worker and that is higher.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Not before `delay` has passed. Zero is now; [`Duration::MAX`] never comes.
    ///
    /// Of [`after`](Add::after), [`at`](Add::at) and [`rate_limited`](Add::rate_limited) the earliest counts.
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// Not before `deadline`. One in the past is now.
    pub fn at(mut self, deadline: Instant) -> Self {
        self.at = Some(deadline);
        self
    }

    /// Not before the queue's rate limiter allows it. Counts as a try, even when another deadline is earlier.
    pub fn rate_limited(mut self) -> Self {
        self.rate_limited = true;
        self
    }

    pub(crate) fn is_retry(&self) -> bool {
        self.rate_limited || self.after.is_some() || self.at.is_some()
    }

    /// The rate limiter's delay: it counts if no other time is earlier.
    pub(crate) fn limit(&mut self, delay: Duration) {
        self.after = Some(self.after.map_or(delay, |after| after.min(delay)));
    }

    /// Resolves the options.
    #[inline]
    pub(crate) fn addition(&self, hash: u64, now: Instant) -> Addition {
        let due = self.at.into_iter().chain(self.after.map(|delay| now + delay)).min();
        Addition { hash, priority: self.priority, due, now, retry: self.is_retry() }
    }
}

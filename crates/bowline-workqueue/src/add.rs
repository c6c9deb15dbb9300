//! Options of an addition.

use std::time::Duration;

use bowline_clock::Instant;

use crate::machine::Addition;

/// Options of [`WorkQueue::add_with`](crate::WorkQueue::add_with). Default: now, with priority zero.
/// zero.
///
/// ```
/// use std::time::Duration;
/// use bowline_workqueue::AddOptions;
///
/// let low_and_late = AddOptions::new(()).priority(-100).after(Duration::from_secs(5));
/// # let _ = low_and_late;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "pass it to `WorkQueue::add_with`"]
pub struct AddOptions<P = ()> {
    pub(crate) payload: P,
    pub(crate) priority: Option<i32>,
    pub(crate) after: Option<Duration>,
    pub(crate) at: Option<Instant>,
    pub(crate) rate_limited: bool,
}

impl<P> AddOptions<P> {
    /// Adds now, with `payload`.
    pub fn new(payload: P) -> Self {
        Self { payload, priority: None, after: None, at: None, rate_limited: false }
    }

    /// Priority: keys with higher ones are handed out first. Default: zero, or the priority of the current run if the
    /// key is with a worker and that is higher.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Adds the key after `delay`. Zero means now; [`Duration::MAX`] means never.
    ///
    /// The earliest of [`after`](AddOptions::after), [`at`](AddOptions::at) and
    /// [`rate_limited`](AddOptions::rate_limited) counts.
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// Adds the key at `deadline`. One in the past means now.
    pub fn at(mut self, deadline: Instant) -> Self {
        self.at = Some(deadline);
        self
    }

    /// Adds the key after the delay of the queue's rate limiter. Counts as an attempt, even when another deadline is
    /// earlier.
    pub fn rate_limited(mut self) -> Self {
        self.rate_limited = true;
        self
    }

    pub(crate) fn is_retry(&self) -> bool {
        self.rate_limited || self.after.is_some() || self.at.is_some()
    }

    /// Sets the rate limiter's delay, unless another time is earlier.
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

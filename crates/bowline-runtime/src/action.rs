//! `Action`: the next run of an object after a success.

use std::time::{Duration, SystemTime};

/// The next run of an object that was reconciled without an error.
///
/// ```
/// use std::time::Duration;
/// use bowline_runtime::Action;
///
/// assert_eq!(Action::done().after(), None);
/// assert_eq!(Action::requeue_after(Duration::from_secs(60)).after(), Some(Duration::from_secs(60)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an action does nothing unless a reconciler returns it"]
pub struct Action {
    next: Next,
    jitter: Duration,
    priority: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Done,
    After(Duration),
    At(SystemTime),
    BackOff,
}

impl Action {
    /// No further run, until the object or one of its watched dependencies changes.
    pub fn done() -> Self {
        Self::new(Next::Done)
    }

    /// Another run after a delay, or at an earlier event, which replaces the scheduled run: there is one run, not two.
    /// For a run each hour, a reconciler has to return this from every run, not only from the first.
    ///
    /// The delay is exact. [`jitter`](Self::jitter) spreads objects that would run at the same time. The count of
    /// failures starts anew.
    pub fn requeue_after(delay: Duration) -> Self {
        Self::new(Next::After(delay))
    }

    /// Another run at a time of the wall clock, or at an earlier event, as with [`requeue_after`](Self::requeue_after):
    /// for work that is due at a date, such as the end of a certificate or a schedule.
    ///
    /// The run begins when the wall clock shows that time, even if the clock is set forward or back meanwhile or the
    /// machine is suspended. If the clock thereby passes the time, the run is up to 30 seconds late. A time in the past
    /// means now. The count of failures starts anew.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use bowline_runtime::Action;
    ///
    /// let end = SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000);
    /// assert_eq!(Action::requeue_at(end).at(), Some(end));
    ///
    /// // A time of the API, or an RFC 3339 text in a spec:
    /// let due: k8s_openapi::jiff::Timestamp = "2033-05-18T03:33:20Z".parse()?;
    /// assert_eq!(Action::requeue_at(due).at(), Some(end));
    /// # Ok::<(), k8s_openapi::jiff::Error>(())
    /// ```
    ///
    /// Work that waits for a time in the spec. A field of the type `Time` is an RFC 3339 text, and is stored without fractions of
    /// a second:
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::SystemTime;
    /// use bowline_runtime::{Action, Context, Result};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    ///
    /// async fn reconcile(ctx: Context, map: Arc<ConfigMap>) -> Result<Action> {
    ///     # let schedule: Option<Time> = map.metadata.creation_timestamp.clone();
    ///     // let schedule: &Option<Time> = &map.spec.schedule;
    ///     let due = schedule.as_ref().map(|time| SystemTime::from(time.0));
    ///     if let Some(due) = due && ctx.clock().system_time() < due {
    ///         return Ok(Action::requeue_at(due));
    ///     }
    ///     // It is time.
    ///     Ok(Action::done())
    /// }
    /// ```
    pub fn requeue_at(time: impl Into<SystemTime>) -> Self {
        Self::new(Next::At(time.into()))
    }

    /// Another run after a delay that grows with each such result in a row, as after an error. It counts as a success:
    /// the count of [attempts](crate::Context::attempt) and of [retries](crate::ControllerBuilder::max_retries) starts
    /// anew, only the delay goes on growing.
    pub fn back_off() -> Self {
        Self::new(Next::BackOff)
    }

    /// Adds a random time below `most` to a requeue after or at a time, so that objects do not run together for ever.
    /// Default: none. [`done`](Self::done) and [`back_off`](Self::back_off) ignore it.
    pub fn jitter(mut self, most: Duration) -> Self {
        self.jitter = most;
        self
    }

    /// Sets the priority of the next run. Default: the priority of this run.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    fn new(next: Next) -> Self {
        Self { next, jitter: Duration::ZERO, priority: None }
    }

    /// Upper bound of the random time that is added to the delay.
    pub(crate) fn longest_jitter(&self) -> Duration {
        self.jitter
    }

    pub(crate) fn next(&self) -> Next {
        self.next
    }

    pub(crate) fn chosen_priority(&self) -> Option<i32> {
        self.priority
    }

    /// The delay of the next run, without [jitter](Self::jitter). None if there is none.
    #[must_use]
    pub fn after(&self) -> Option<Duration> {
        match self.next {
            Next::After(delay) => Some(delay),
            Next::Done | Next::At(_) | Next::BackOff => None,
        }
    }

    /// The time of the next run by the wall clock, without [jitter](Self::jitter). None if there is none.
    #[must_use]
    pub fn at(&self) -> Option<SystemTime> {
        match self.next {
            Next::At(time) => Some(time),
            Next::Done | Next::After(_) | Next::BackOff => None,
        }
    }
}

//! What a queue tells about itself.

/// How many keys are where, and what went wrong so far, from [`WorkQueue::stats`](crate::WorkQueue::stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys in line for a worker.
    pub ready: usize,
    /// Keys that wait for their time.
    pub delayed: usize,
    /// Keys with a worker; one whose guard was leaked counts for ever.
    pub processing: usize,
    /// Additions that were dropped: delayed ones at shutdown, and any after it.
    pub dropped: u64,
    /// Payloads lost because [`Coalesce::coalesce`](crate::Coalesce::coalesce) panicked.
    pub merge_panics: u64,
    /// Reports lost because the metrics sink panicked.
    pub sink_panics: u64,
    /// Calls of the rate limiter that panicked.
    pub limiter_panics: u64,
}

/// How a [`shutdown_with_drain`](crate::WorkQueue::shutdown_with_drain) ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "keys that were not worked on are worth a log line"]
pub enum Drain {
    /// Workers took everything that was in line and were done with it.
    Complete,
    /// The limit passed first.
    TimedOut {
        /// Keys still in line.
        ready: usize,
        /// Keys still with a worker.
        processing: usize,
    },
}

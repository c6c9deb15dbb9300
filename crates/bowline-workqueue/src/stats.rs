//! Statistics of a queue.

/// Number of keys per state and of faults so far, from [`WorkQueue::stats`](crate::WorkQueue::stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Keys ready for a worker.
    pub ready: usize,
    /// Keys whose delay has not passed.
    pub delayed: usize,
    /// Keys held by a worker. A leaked guard counts forever.
    pub processing: usize,
    /// Dropped additions: delayed ones at shutdown, and any after it.
    pub dropped: u64,
    /// Payloads lost because [`Coalesce::coalesce`](crate::Coalesce::coalesce) panicked.
    pub merge_panics: u64,
    /// Reports lost because the metrics sink panicked.
    pub sink_panics: u64,
    /// Calls of the rate limiter that panicked.
    pub limiter_panics: u64,
}

/// The result of [`shutdown_with_drain`](crate::WorkQueue::shutdown_with_drain).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "keys that were not worked on are worth a log line"]
pub enum DrainResult {
    /// Workers took all ready keys and finished them.
    Complete,
    /// The timeout passed first.
    TimedOut {
        /// Keys still ready.
        ready: usize,
        /// Keys still held by a worker.
        processing: usize,
    },
}

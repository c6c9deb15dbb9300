//! Rate limiters: the delay before a key runs again.

mod bucket;
mod exponential;
mod fast_slow;
mod max_of;
mod max_wait;
mod min_interval;
mod tries;

pub use bucket::{InvalidBucket, TokenBucket};
pub use exponential::ItemExponentialFailure;
pub use fast_slow::ItemFastSlow;
pub use max_of::MaxOf;
pub use max_wait::WithMaxWait;
pub use min_interval::MinInterval;

use std::time::Duration;

use bowline_clock::Instant;

/// Decides the delay of a key that is added through [`add_rate_limited`](crate::WorkQueue::add_rate_limited).
///
/// Implement it for custom rules. It is called under its own lock, not the queue's: it may take some time, but must not
/// block, nor call the queue. Any delay is valid: one beyond the range of time means "never", until the key is added in
/// another way. If a method panics, the panic is caught and counted in
/// [`QueueStats::limiter_panics`](crate::QueueStats::limiter_panics), and the key waits for
/// [`PANIC_DELAY`](crate::PANIC_DELAY).
///
/// ```
/// use std::time::Duration;
/// use bowline_clock::Instant;
/// use bowline_workqueue::RateLimiter;
///
/// /// The same delay for every key, every time.
/// struct Constant(Duration);
///
/// impl<K> RateLimiter<K> for Constant {
///     fn when(&mut self, _key: &K, _now: Instant) -> Duration {
///         self.0
///     }
/// }
/// ```
pub trait RateLimiter<K>: Send + 'static {
    /// The delay of `key`, added now. Each call counts as one more attempt.
    fn when(&mut self, key: &K, now: Instant) -> Duration;

    /// Resets the attempts of a key that succeeded or is not retried. Default: does nothing.
    fn forget(&mut self, key: &K) {
        let _ = key;
    }

    /// Number of attempts of the key since it was last forgotten. Default: zero, for a limiter that does not count.
    fn num_requeues(&self, key: &K) -> u32 {
        let _ = key;
        0
    }
}

impl<K: 'static> RateLimiter<K> for Box<dyn RateLimiter<K>> {
    fn when(&mut self, key: &K, now: Instant) -> Duration {
        (**self).when(key, now)
    }

    fn forget(&mut self, key: &K) {
        (**self).forget(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        (**self).num_requeues(key)
    }
}

//! Rate limiters: how long a key has to wait before it is run again.

mod bucket;
mod exponential;
mod fast_slow;
mod max_of;
mod max_wait;
mod min_interval;
mod tries;

pub use bucket::{Bucket, InvalidBucket};
pub use exponential::ItemExponentialFailure;
pub use fast_slow::ItemFastSlow;
pub use max_of::MaxOf;
pub use max_wait::WithMaxWait;
pub use min_interval::MinInterval;

use std::time::Duration;

use bowline_clock::Instant;

/// Decides how long a key waits when it is added through
/// [`add_rate_limited`](crate::WorkQueue::add_rate_limited).
///
/// Implement it for rules of your own. It is called under a lock of its own, not the queue's: it may take a
/// moment, but it must not wait, nor call the queue. Any delay is fine: one beyond the end of time means
/// "never", until the key is added in another way. Should a method panic, the panic is caught and counted in
/// [`Stats::limiter_panics`](crate::Stats::limiter_panics), and the key waits for
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
    /// How long `key`, added now, has to wait. Each call counts as one more try.
    fn when(&mut self, key: &K, now: Instant) -> Duration;

    /// The key succeeded, or is given up: its next delay is that of a first try. Does nothing by default.
    fn forget(&mut self, key: &K) {
        let _ = key;
    }

    /// How often the key was added since it was last forgotten; zero by default, for a limiter that does not
    /// count.
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

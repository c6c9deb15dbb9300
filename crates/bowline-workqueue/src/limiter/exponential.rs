//! Exponential backoff per key.

use std::time::Duration;

use bowline_clock::Instant;

use super::RateLimiter;
use super::tries::Tries;
use crate::Key;

/// Each key waits `base`, then twice that, and so on, up to `max`, until it is forgotten.
///
/// The default is client-go's: 5 ms, up to 1000 s. Use it for retries after errors: a key that keeps failing does not
/// slow down others. It remembers a key until it is [forgotten](RateLimiter::forget); forget keys that succeed or are
/// not retried.
#[derive(Debug)]
pub struct ItemExponentialFailure<K> {
    base: Duration,
    max: Duration,
    tries: Tries<K>,
}

impl<K> ItemExponentialFailure<K> {
    /// Delays of `base`, doubled with each attempt, up to `max`. A `base` of zero never delays; a `base` above `max`
    /// always delays by `max`.
    #[must_use]
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, tries: Tries::default() }
    }
}

impl<K> Default for ItemExponentialFailure<K> {
    /// 5 ms, doubled up to 1000 s.
    fn default() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

impl<K: Key> RateLimiter<K> for ItemExponentialFailure<K> {
    fn when(&mut self, key: &K, _now: Instant) -> Duration {
        let doublings = self.tries.count(key);
        if self.base.is_zero() {
            return Duration::ZERO;
        }
        let base = self.base.as_nanos();
        let delay = if doublings < base.leading_zeros() { base << doublings } else { u128::MAX };
        if delay < self.max.as_nanos() { Duration::from_nanos_u128(delay) } else { self.max }
    }

    fn forget(&mut self, key: &K) {
        self.tries.forget(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.tries.get(key)
    }
}

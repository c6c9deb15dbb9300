//! Another limiter with a maximum delay.

use std::time::Duration;

use bowline_clock::Instant;

use super::RateLimiter;

/// Another limiter's delays, at most `max`.
///
/// Use it around a [`TokenBucket`](super::TokenBucket), whose delays grow without bound when it is overdrawn.
#[derive(Clone, Debug)]
pub struct WithMaxWait<L> {
    limiter: L,
    max: Duration,
}

impl<L> WithMaxWait<L> {
    /// `limiter` with delays of at most `max`. A `max` of zero never delays.
    #[must_use]
    pub fn new(limiter: L, max: Duration) -> Self {
        Self { limiter, max }
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for WithMaxWait<L> {
    fn when(&mut self, key: &K, now: Instant) -> Duration {
        self.limiter.when(key, now).min(self.max)
    }

    fn forget(&mut self, key: &K) {
        self.limiter.forget(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.limiter.num_requeues(key)
    }
}

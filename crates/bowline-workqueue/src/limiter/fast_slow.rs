//! A few fast retries per key, then slow ones.

use std::time::Duration;

use bowline_clock::Instant;

use super::RateLimiter;
use super::tries::Tries;
use crate::Key;

/// Each key waits `fast` for its first `max_fast_attempts` attempts and `slow` from then on, until it is forgotten.
///
/// Use it for failures that are either very short or long: one or two fast retries, then polling.
#[derive(Debug)]
pub struct ItemFastSlow<K> {
    fast: Duration,
    slow: Duration,
    max_fast_attempts: u32,
    tries: Tries<K>,
}

impl<K> ItemFastSlow<K> {
    /// `max_fast_attempts` attempts after `fast`, all others after `slow`. Zero means slow ones only.
    #[must_use]
    pub fn new(fast: Duration, slow: Duration, max_fast_attempts: u32) -> Self {
        Self { fast, slow, max_fast_attempts, tries: Tries::default() }
    }
}

impl<K: Key> RateLimiter<K> for ItemFastSlow<K> {
    fn when(&mut self, key: &K, _now: Instant) -> Duration {
        if self.tries.count(key) < self.max_fast_attempts { self.fast } else { self.slow }
    }

    fn forget(&mut self, key: &K) {
        self.tries.forget(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.tries.get(key)
    }
}

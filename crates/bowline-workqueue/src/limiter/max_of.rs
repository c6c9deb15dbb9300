//! The maximum of several limiters.

use std::fmt;
use std::time::Duration;

use bowline_clock::Instant;

use super::{ItemExponentialFailure, RateLimiter, TokenBucket};
use crate::Key;

/// Each key waits for the longest delay of several limiters. Every limiter counts each attempt.
///
/// Use it to combine a rule per key with one for all keys, as [`MaxOf::client_go`] does.
pub struct MaxOf<K> {
    limiters: Vec<Box<dyn RateLimiter<K>>>,
}

impl<K: 'static> MaxOf<K> {
    /// The longest delay of `limiters`; an empty list never delays.
    #[must_use]
    pub fn new(limiters: impl IntoIterator<Item = Box<dyn RateLimiter<K>>>) -> Self {
        Self { limiters: limiters.into_iter().collect() }
    }
}

impl<K: Key> MaxOf<K> {
    /// client-go's default controller rate limiter: [`ItemExponentialFailure`] and [`TokenBucket`], both with their
    /// defaults.
    #[must_use]
    pub fn client_go() -> Self {
        let exponential = ItemExponentialFailure::default();
        Self::new([Box::new(exponential) as Box<dyn RateLimiter<K>>, Box::new(TokenBucket::default())])
    }
}

impl<K: 'static> RateLimiter<K> for MaxOf<K> {
    fn when(&mut self, key: &K, now: Instant) -> Duration {
        self.limiters.iter_mut().map(|limiter| limiter.when(key, now)).max().unwrap_or_default()
    }

    fn forget(&mut self, key: &K) {
        for limiter in &mut self.limiters {
            limiter.forget(key);
        }
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.limiters.iter().map(|limiter| limiter.num_requeues(key)).max().unwrap_or_default()
    }
}

impl<K> fmt::Debug for MaxOf<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaxOf").field("limiters", &self.limiters.len()).finish()
    }
}

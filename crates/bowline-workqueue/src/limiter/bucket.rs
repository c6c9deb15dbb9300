//! Token bucket for all keys: a rate with a burst.

use std::time::Duration;

use bowline_clock::Instant;

use super::RateLimiter;

/// A token bucket for all keys together: a burst of `burst`, then `per_second` keys per second.
///
/// The default is client-go's: 10 per second, bursts of 100. Every call takes a token, also for a key that waits
/// already. When the bucket is empty, it takes a future one: delays then grow by a hundred milliseconds per call
/// without bound, which [`WithMaxWait`](super::WithMaxWait) limits. Forgetting a key returns no token. Use it to
/// protect the services that workers call.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    nanos_per_token: u64,
    burst: u32,
    /// The time when the bucket is full again if no token is taken.
    full_at: Instant,
}

impl TokenBucket {
    /// A bucket that gains `per_second` tokens per second and holds at most `burst`.
    ///
    /// # Errors
    /// If the rate is not a positive, finite number, or so low that a token takes centuries, or if the burst is zero:
    /// such a bucket would never let a key through.
    pub fn new(per_second: f64, burst: u32) -> Result<Self, InvalidBucket> {
        if burst == 0 {
            return Err(InvalidBucket::NoBurst);
        }
        let period = Duration::try_from_secs_f64(1.0 / per_second).ok();
        let nanos = period.and_then(|period| u64::try_from(period.as_nanos()).ok());
        match nanos {
            Some(nanos_per_token) if per_second > 0.0 && per_second.is_finite() => {
                Ok(Self { nanos_per_token, burst, full_at: Instant::ZERO })
            }
            _ => Err(InvalidBucket::Rate { per_second }),
        }
    }
}

impl Default for TokenBucket {
    /// 10 per second, bursts of 100.
    fn default() -> Self {
        Self { nanos_per_token: 100_000_000, burst: 100, full_at: Instant::ZERO }
    }
}

impl<K> RateLimiter<K> for TokenBucket {
    fn when(&mut self, _key: &K, now: Instant) -> Duration {
        let token = Duration::from_nanos(self.nanos_per_token);
        self.full_at = self.full_at.max(now) + token;
        self.full_at.duration_since(now).saturating_sub(token.saturating_mul(self.burst))
    }
}

/// The options of a [`TokenBucket`] are invalid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidBucket {
    /// The burst is zero.
    #[error("a bucket with a burst of zero lets nothing through: give it a burst of at least 1")]
    NoBurst,
    /// The rate is not positive and finite, or too low.
    #[error("a bucket cannot fill at {per_second} tokens per second: give it a positive, finite rate")]
    Rate {
        /// The requested rate.
        per_second: f64,
    },
}

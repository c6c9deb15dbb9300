//! Over all keys, a rate with a burst.

use std::time::Duration;

use bowline_clock::Instant;

use super::RateLimiter;

/// A token bucket over all keys together: `burst` at once, then so many per second.
///
/// The default is client-go's: 10 per second, bursts of 100. Every call takes a token, whether the key was
/// waiting already or not, and when there is none, one of the future: the delays then grow by a hundred
/// milliseconds a call, without bound, so put a [`WithMaxWait`](super::WithMaxWait) around it where that hurts.
/// Forgetting a key gives no token back. Use it to protect whatever the workers call.
#[derive(Clone, Debug)]
pub struct Bucket {
    nanos_per_token: u64,
    burst: u32,
    /// When the bucket will be full again, if nobody takes a token until then.
    full_at: Instant,
}

impl Bucket {
    /// `per_second` tokens a second, and `burst` of them saved up at most.
    ///
    /// # Errors
    /// A rate that is not a positive, finite number, or that is so low that a token takes centuries, and a burst
    /// of zero: such a bucket would never let anything through.
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

impl Default for Bucket {
    /// 10 per second, bursts of 100.
    fn default() -> Self {
        Self { nanos_per_token: 100_000_000, burst: 100, full_at: Instant::ZERO }
    }
}

impl<K> RateLimiter<K> for Bucket {
    fn when(&mut self, _key: &K, now: Instant) -> Duration {
        let token = Duration::from_nanos(self.nanos_per_token);
        self.full_at = self.full_at.max(now) + token;
        self.full_at.since(now).saturating_sub(token.saturating_mul(self.burst))
    }
}

/// Why a [`Bucket`] cannot be.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidBucket {
    /// The burst is zero.
    #[error("a bucket with a burst of zero lets nothing through: give it a burst of at least 1")]
    NoBurst,
    /// The rate is not a usable number.
    #[error("a bucket cannot fill at {per_second} tokens per second: give it a positive, finite rate")]
    Rate {
        /// The rate asked for.
        per_second: f64,
    },
}

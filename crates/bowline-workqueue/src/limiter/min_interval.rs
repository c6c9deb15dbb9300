//! Minimum interval per key.

use std::time::Duration;

use bowline_clock::{HashMap, HashState, Instant};

use super::RateLimiter;
use crate::Key;

/// Number of remembered keys before expired ones are removed.
const SWEEP_AT: usize = 1024;

/// Allows a key once per `interval`; its first run is not delayed.
///
/// Additions before an already planned run share it. So however often a key is added, it becomes ready once per
/// interval, at most one interval late. A run that then waited for a worker can be closer to the next one.
/// [`add`](crate::WorkQueue::add) does not call the limiter and is not delayed. Forgetting a key changes nothing: a
/// success does not allow an earlier run. Use it for keys that change all the time and whose runs are expensive.
#[derive(Debug)]
pub struct MinInterval<K> {
    interval: Duration,
    /// The time of each key's last or next allowed run.
    allowed: HashMap<K, Instant>,
    sweep_at: usize,
}

impl<K> MinInterval<K> {
    /// Allows each key once per `interval`. Zero never delays.
    #[must_use]
    pub fn new(interval: Duration) -> Self {
        Self { interval, allowed: HashMap::with_hasher(HashState::for_lookups()), sweep_at: SWEEP_AT }
    }

    /// Removes keys whose interval has passed; they count as new again.
    fn sweep(&mut self, now: Instant) {
        if self.allowed.len() >= self.sweep_at {
            self.allowed.retain(|_, allowed| *allowed + self.interval > now);
            self.sweep_at = (self.allowed.len() * 2).max(SWEEP_AT);
        }
    }
}

impl<K: Key> RateLimiter<K> for MinInterval<K> {
    fn when(&mut self, key: &K, now: Instant) -> Duration {
        self.sweep(now);
        let Some(allowed) = self.allowed.get_mut(key) else {
            self.allowed.insert(key.clone(), now);
            return Duration::ZERO;
        };
        if *allowed < now {
            *allowed = now.max(*allowed + self.interval);
        } else if *allowed == now {
            *allowed = now + self.interval;
        }
        allowed.duration_since(now)
    }
}

//! Per key, a minimum distance in time.

use std::time::Duration;

use bowline_clock::{HashMap, HashState, Instant};

use super::RateLimiter;
use crate::Key;

/// This many keys are remembered before those that no longer matter are swept out.
const SWEEP_AT: usize = 1024;

/// Lets a key in once per `interval`; its first time is not delayed.
///
/// All additions before a time that is already set share it, so however often a key is added, it gets in line once
/// per interval, and at most one interval late. A run that then waited for a worker can be closer to the next, and
/// [`add`](crate::WorkQueue::add), which does not ask the limiter, is not held back. Forgetting a key changes
/// nothing: a success does not allow an earlier run. Use it for keys that change all the time, where each run is
/// expensive.
#[derive(Debug)]
pub struct MinInterval<K> {
    interval: Duration,
    /// When each key was last allowed to run, or is allowed to run next.
    allowed: HashMap<K, Instant>,
    sweep_at: usize,
}

impl<K> MinInterval<K> {
    /// Lets each key in once per `interval`. Zero never delays.
    #[must_use]
    pub fn new(interval: Duration) -> Self {
        Self { interval, allowed: HashMap::with_hasher(HashState::for_lookups()), sweep_at: SWEEP_AT }
    }

    /// Forgets keys whose interval has passed: the same as never having seen them.
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
        allowed.since(now)
    }
}

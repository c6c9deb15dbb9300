//! Delay after failed lists and watches: exponential, with jitter.

use std::time::Duration;

use bowline_clock::{Clock, Instant};

/// Backoff of client-go's reflector: from 800 ms, doubling up to 30 s, with a jitter factor of 1 to 2. Starts over
/// after two minutes without a failure.
#[derive(Debug)]
pub(crate) struct Backoff {
    clock: Clock,
    next: Duration,
    last: Option<Instant>,
}

const INITIAL: Duration = Duration::from_millis(800);
const MAX: Duration = Duration::from_secs(30);
const RESET_AFTER: Duration = Duration::from_secs(120);

impl Backoff {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, next: INITIAL, last: None }
    }

    /// The next delay.
    pub(crate) fn next(&mut self) -> Duration {
        let now = self.clock.now();
        if self.last.is_some_and(|last| now.duration_since(last) > RESET_AFTER) {
            self.next = INITIAL;
        }
        self.last = Some(now);
        let base = self.next;
        self.next = (self.next * 2).min(MAX);
        self.clock.rng().jitter(base, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use bowline_clock::Simulation;

    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_begin_again_after_a_while() {
        Simulation::new(3).run(|clock| async move {
            let mut backoff = Backoff::new(clock.clone());
            let mut base = INITIAL;
            for _ in 0..10 {
                let wait = backoff.next();
                assert!(wait >= base && wait <= base * 2, "{wait:?} for {base:?}");
                base = (base * 2).min(MAX);
                clock.sleep(wait).await;
            }
            assert_eq!(base, MAX);
            clock.sleep(RESET_AFTER * 2).await;
            assert!(backoff.next() <= INITIAL * 2);
        });
    }
}

//! How long to wait after a failure: longer each time, and never all at once.

use std::time::Duration;

use bowline_clock::{Clock, Instant};

/// As client-go's reflector waits: from 800 ms, doubling, up to 30 s, each drawn between that and twice that; from the start
/// again after two minutes without a failure.
#[derive(Debug)]
pub(crate) struct Backoff {
    clock: Clock,
    next: Duration,
    last: Option<Instant>,
}

const FIRST: Duration = Duration::from_millis(800);
const MOST: Duration = Duration::from_secs(30);
const FORGET: Duration = Duration::from_secs(120);

impl Backoff {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, next: FIRST, last: None }
    }

    /// How long to wait now.
    pub(crate) fn next(&mut self) -> Duration {
        let now = self.clock.now();
        if self.last.is_some_and(|last| now.since(last) > FORGET) {
            self.next = FIRST;
        }
        self.last = Some(now);
        let base = self.next;
        self.next = (self.next * 2).min(MOST);
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
            let mut base = FIRST;
            for _ in 0..10 {
                let wait = backoff.next();
                assert!(wait >= base && wait <= base * 2, "{wait:?} for {base:?}");
                base = (base * 2).min(MOST);
                clock.sleep(wait).await;
            }
            assert_eq!(base, MOST);
            clock.sleep(FORGET * 2).await;
            assert!(backoff.next() <= FIRST * 2);
        });
    }
}

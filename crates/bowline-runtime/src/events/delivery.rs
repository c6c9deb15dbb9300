//! The task that writes to one sink what its outbox has.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_clock::{Clock, Instant, panic_message};
use futures::FutureExt as _;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::metrics::{Count, Counters};
use super::outbox::{Letter, Outbox};
use super::{EventRecord, Sink, SinkError};
use crate::error::describe;

/// How often a write is tried.
const TRIES: u32 = 12;

/// How long is waited between two tries, and by how much of that longer at most.
const BETWEEN_TRIES: Duration = Duration::from_secs(10);
const JITTER: f64 = 0.25;

/// A sink that does not answer for so long is away.
const PATIENCE: Duration = Duration::from_secs(30);

/// A sink, and what is to be written to it.
pub(super) struct Delivery {
    pub(super) sink: Arc<dyn Sink>,
    pub(super) counters: Arc<Counters>,
    outbox: Mutex<Outbox>,
    wake: Notify,
}

impl Delivery {
    pub(super) fn new(sink: Arc<dyn Sink>, counters: Arc<Counters>, outbox: Outbox) -> Self {
        Self { sink, counters, outbox: Mutex::new(outbox), wake: Notify::new() }
    }

    /// Takes an event in. Never waits for the sink.
    pub(super) fn observe(
        &self,
        event: EventRecord,
        naming: &mut dyn FnMut(&EventRecord) -> String,
        now: Instant,
    ) {
        if self.outbox().observe(event, naming, now) {
            self.wake.notify_one();
        }
    }

    pub(super) fn outbox(&self) -> MutexGuard<'_, Outbox> {
        // Nothing that can panic runs under this lock.
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what there is to write until it is to stop, and then what is left, with one try each.
    pub(super) async fn run(self: Arc<Self>, clock: Clock, stop: CancellationToken) {
        loop {
            // Also while there is always something to write.
            self.look_after_series(clock.now());
            let letter = self.outbox().take();
            if let Some(letter) = letter {
                let is_taken = self.deliver(&letter.event, letter.earlier, &clock, &stop).await;
                self.finish(letter, is_taken, clock.now());
                continue;
            }
            if stop.is_cancelled() {
                if self.outbox().close() {
                    continue;
                }
                return;
            }
            let next_look = self.outbox().next_look();
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.wake.notified() => {}
                () = clock.sleep_until(next_look.unwrap_or(Instant::MAX)) => {}
            }
        }
    }

    fn look_after_series(&self, now: Instant) {
        let mut outbox = self.outbox();
        if outbox.next_look().is_some_and(|look| look <= now) {
            outbox.look_after_series(now);
        }
    }

    fn finish(&self, letter: Letter, is_taken: bool, now: Instant) {
        self.outbox().done(letter, is_taken, now);
    }

    /// One try. A sink that panics refuses this event, and is given the next.
    async fn write(&self, event: &EventRecord, earlier: bool) -> Result<(), SinkError> {
        let write = AssertUnwindSafe(async { self.sink.write(event, earlier).await });
        write.catch_unwind().await.unwrap_or_else(|panic| {
            let problem = format!("it panicked: {}", panic_message(&*panic));
            Err(SinkError::Refused(problem.into()))
        })
    }

    /// Whether the sink took the event.
    async fn deliver(
        &self,
        event: &EventRecord,
        earlier: bool,
        clock: &Clock,
        stop: &CancellationToken,
    ) -> bool {
        let mut tries = 0;
        loop {
            // Who is to stop while a try is under way makes it the last, and who waits for the next makes it at once.
            let is_stopping = stop.is_cancelled();
            let outcome = match clock.timeout(PATIENCE, self.write(event, earlier)).await {
                Ok(outcome) => outcome,
                Err(elapsed) => Err(SinkError::Away(elapsed.into())),
            };
            tries += 1;
            let error = match outcome {
                Ok(()) => return true,
                Err(error) => error,
            };
            let about = format_args!(
                "{} {} {} {}/{}",
                event.event_type,
                event.reason,
                event.regarding.kind.as_deref().unwrap_or("object"),
                event.namespace,
                event.regarding.name.as_deref().unwrap_or_default()
            )
            .to_string();
            let (sink, error) = (self.sink.name(), &error);
            match error {
                SinkError::Pointless(_) => {
                    tracing::debug!(
                        sink,
                        event = about,
                        error = describe(error),
                        "an event has no place to go to"
                    );
                    return false;
                }
                SinkError::Refused(_) => {
                    tracing::warn!(sink, event = about, error = describe(error), "an event was refused");
                    return false;
                }
                SinkError::Away(_) if tries >= TRIES || is_stopping => {
                    tracing::warn!(
                        sink,
                        event = about,
                        tries,
                        error = describe(error),
                        "an event was given up"
                    );
                    return false;
                }
                SinkError::Away(_) => {
                    tracing::debug!(
                        sink,
                        event = about,
                        tries,
                        error = describe(error),
                        "an event has to wait"
                    );
                }
            }
            self.counters.add(Count::Retried, 1);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = clock.sleep(clock.rng().jitter(BETWEEN_TRIES, JITTER)) => {}
            }
        }
    }
}

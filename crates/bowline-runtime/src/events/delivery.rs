//! The task that writes the outbox of one sink.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_clock::{Clock, Instant, panic_message};
use futures::FutureExt as _;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::metrics::{Count, Counters};
use super::outbox::{Outbox, PendingWrite};
use super::{EventRecord, EventSink, SinkError};
use crate::error::describe;

/// Maximum attempts per write.
const MAX_ATTEMPTS: u32 = 12;

/// Delay between attempts, and its jitter factor.
const RETRY_DELAY: Duration = Duration::from_secs(10);
const JITTER: f64 = 0.25;

/// Timeout of an attempt, after which the sink counts as unavailable.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// A sink and its pending writes.
pub(super) struct Delivery {
    pub(super) sink: Arc<dyn EventSink>,
    pub(super) counters: Arc<Counters>,
    outbox: Mutex<Outbox>,
    wake: Notify,
}

impl Delivery {
    pub(super) fn new(sink: Arc<dyn EventSink>, counters: Arc<Counters>, outbox: Outbox) -> Self {
        Self { sink, counters, outbox: Mutex::new(outbox), wake: Notify::new() }
    }

    /// Accepts an event. Never waits for the sink.
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
        // No code that can panic runs under this lock.
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes pending events until it is stopped, and then the rest with one attempt each.
    pub(super) async fn run(self: Arc<Self>, clock: Clock, stop: CancellationToken) {
        loop {
            // Also while there are always pending writes.
            self.check_series(clock.now());
            let pending = self.outbox().take();
            if let Some(pending) = pending {
                let is_written = self.deliver(&pending.event, pending.earlier, &clock, &stop).await;
                self.finish(pending, is_written, clock.now());
                continue;
            }
            if stop.is_cancelled() {
                if self.outbox().close() {
                    continue;
                }
                return;
            }
            let next_check = self.outbox().next_check();
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.wake.notified() => {}
                () = clock.sleep_until(next_check.unwrap_or(Instant::MAX)) => {}
            }
        }
    }

    fn check_series(&self, now: Instant) {
        let mut outbox = self.outbox();
        if outbox.next_check().is_some_and(|look| look <= now) {
            outbox.check_series(now);
        }
    }

    fn finish(&self, pending: PendingWrite, is_written: bool, now: Instant) {
        self.outbox().done(pending, is_written, now);
    }

    /// Makes one attempt. If the sink panics, it has rejected this event, and gets the next one.
    async fn write(&self, event: &EventRecord, earlier: bool) -> Result<(), SinkError> {
        let write = AssertUnwindSafe(async { self.sink.write(event, earlier).await });
        write.catch_unwind().await.unwrap_or_else(|panic| {
            let problem = format!("it panicked: {}", panic_message(&*panic));
            Err(SinkError::Refused(problem.into()))
        })
    }

    /// Returns whether the sink accepted the event.
    async fn deliver(
        &self,
        event: &EventRecord,
        earlier: bool,
        clock: &Clock,
        stop: &CancellationToken,
    ) -> bool {
        let mut attempts = 0;
        loop {
            // A stop during an attempt makes it the last one; a stop during the delay ends the delay.
            let is_stopping = stop.is_cancelled();
            let outcome = match clock.timeout(WRITE_TIMEOUT, self.write(event, earlier)).await {
                Ok(outcome) => outcome,
                Err(elapsed) => Err(SinkError::Unavailable(elapsed.into())),
            };
            attempts += 1;
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
                SinkError::NamespaceTerminating(_) => {
                    tracing::debug!(
                        sink,
                        event = about,
                        error = describe(error),
                        "event dropped: its namespace is being deleted"
                    );
                    return false;
                }
                SinkError::Refused(_) => {
                    tracing::warn!(sink, event = about, error = describe(error), "event rejected");
                    return false;
                }
                SinkError::Unavailable(_) if attempts >= MAX_ATTEMPTS || is_stopping => {
                    tracing::warn!(
                        sink,
                        event = about,
                        attempts,
                        error = describe(error),
                        "event dropped: retries exhausted"
                    );
                    return false;
                }
                SinkError::Unavailable(_) => {
                    tracing::debug!(
                        sink,
                        event = about,
                        attempts,
                        error = describe(error),
                        "event not written; will retry"
                    );
                }
            }
            self.counters.add(Count::Retried, 1);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = clock.sleep(clock.rng().jitter(RETRY_DELAY, JITTER)) => {}
            }
        }
    }
}

//! Passes events from recorders to sinks.

use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bowline_clock::{Clock, Scope, Spawner};

use super::delivery::Delivery;
use super::outbox::Outbox;
use super::record::event_name;
use super::{CorrelatorOptions, EventCounts, EventRecord, EventSink, Recorder};
use crate::{Metrics, Permission};

/// Default limit of pending writes per sink.
const CAPACITY: NonZero<usize> = NonZero::new(1000).unwrap();

/// Passes events from recorders to every sink. A clone is the same broadcaster.
///
/// - **It never waits for a sink**, and recording never fails: it takes a short lock per sink and no I/O.
/// - **Similar events are aggregated at once**, before they wait for the sink. A storm of equal events takes the space
///   of one, also while the API server is unavailable. See [`RepeatPolicy`](super::RepeatPolicy) and
///   [`CorrelatorOptions`].
/// - **Memory is bounded**: at most 1000 writes wait for a sink ([`BroadcasterBuilder::capacity`]); further ones are
///   dropped and counted. The memory for series, similar events and sources is bounded too.
/// - **Writes to an unavailable sink** are attempted 12 times, about 10 s apart; later events wait.
///
/// Events are queued from the beginning, and written once it is [started](Self::start). Its tasks are spawned below the
/// given spawner's scope. When that scope is drained, pending events are written with one attempt each.
#[derive(Clone)]
pub struct Broadcaster {
    inner: Arc<Inner>,
}

struct Inner {
    spawner: Spawner,
    deliveries: Vec<Arc<Delivery>>,
    host: String,
    /// Random part of event names, so that two broadcasters do not create the same name at the same time.
    salt: u32,
    /// Number of the last event; numbers are unique.
    last_number: AtomicU64,
    /// `Some` while it runs.
    scope: Mutex<Option<Scope>>,
}

/// Options of a [`Broadcaster`].
#[must_use = "a builder does nothing until `build`"]
pub struct BroadcasterBuilder {
    spawner: Spawner,
    sinks: Vec<Arc<dyn EventSink>>,
    capacity: NonZero<usize>,
    correlator: CorrelatorOptions,
    host: Option<String>,
    metrics: Option<Metrics>,
}

/// Result of [`Broadcaster::stop`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "events that are lost are worth a log line"]
pub struct Flushed {
    left: usize,
}

impl Flushed {
    /// Whether every event was written or rejected before the limit.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// Number of writes of all sinks that were not attempted or not completed.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }
}

impl Broadcaster {
    /// Creates a builder without sinks.
    pub fn builder(spawner: &Spawner) -> BroadcasterBuilder {
        BroadcasterBuilder {
            spawner: spawner.clone(),
            sinks: Vec::new(),
            capacity: CAPACITY,
            correlator: CorrelatorOptions::default(),
            host: None,
            metrics: None,
        }
    }

    /// Creates a recorder for a component. Its events have `component` as controller, and `component-host` as instance
    /// unless set.
    ///
    /// The API requires a qualified name, such as `foo-controller` or `example.com/foo-controller`. Invalid characters
    /// are replaced by `-`.
    #[must_use]
    pub fn recorder(&self, component: &str) -> Recorder {
        Recorder::new(self.clone(), component, &self.inner.host)
    }

    /// Starts to write. Does nothing if it was started before.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    pub fn start(&self) {
        let mut scope = self.scope();
        if scope.is_some() {
            return;
        }
        let started = self.inner.spawner.scope("events");
        for delivery in &self.inner.deliveries {
            delivery.outbox().open();
            started.spawn(
                delivery.sink.name(),
                Arc::clone(delivery).run(self.clock().clone(), started.cancellation()),
            );
        }
        *scope = Some(started);
    }

    /// Writes pending events with one attempt each, and the counts of all series. Drops the rest after `limit`.
    ///
    /// Later events are dropped and counted, until it is started again. If it was never started, nothing is written.
    pub async fn stop(&self, limit: Duration) -> Flushed {
        for delivery in &self.inner.deliveries {
            let _was_open = delivery.outbox().close();
        }
        let scope = self.scope().take();
        if let Some(scope) = scope {
            let _names = scope.drain(limit).await;
            // An aborted task holds its event until its thread drops it.
            scope.wait_ended().await;
        }
        let left = self.inner.deliveries.iter().map(|delivery| delivery.outbox().clear()).sum();
        if left > 0 {
            tracing::warn!(events = left, "events not written before the shutdown limit");
        }
        Flushed { left }
    }

    /// Counters of the events, by the name of the sink, in the order of the sinks.
    #[must_use]
    pub fn counts(&self) -> Vec<(String, EventCounts)> {
        let deliveries = self.inner.deliveries.iter();
        deliveries.map(|delivery| (delivery.sink.name().to_owned(), delivery.counters.counts())).collect()
    }

    pub(super) fn clock(&self) -> &Clock {
        self.inner.spawner.clock()
    }

    /// Passes an event without a name to every sink. If sinks need a name, all get the same one.
    pub(super) fn record(&self, event: EventRecord) {
        let now = self.clock().now();
        let mut name = None;
        let mut naming = |event: &EventRecord| name.get_or_insert_with(|| self.name(event)).clone();
        let mut wanting =
            self.inner.deliveries.iter().filter(|it| it.sink.wants(event.event_type)).peekable();
        while let Some(delivery) = wanting.next() {
            if wanting.peek().is_none() {
                delivery.observe(event, &mut naming, now);
                return;
            }
            delivery.observe(event.clone(), &mut naming, now);
        }
    }

    fn name(&self, event: &EventRecord) -> String {
        let about = event.regarding.name.as_deref().unwrap_or_default();
        event_name(about, &self.next_number(event.first), self.clock().rng())
    }

    /// A unique number: the time in nanoseconds, increased if needed, and the random part.
    fn next_number(&self, time: SystemTime) -> String {
        let nanos = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let nanos = u64::try_from(nanos).unwrap_or_default();
        let next = |last: u64| nanos.max(last.saturating_add(1));
        let last = self
            .inner
            .last_number
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        format!("{:x}{:08x}", next(last.unwrap_or_default()), self.inner.salt)
    }

    fn scope(&self) -> MutexGuard<'_, Option<Scope>> {
        self.inner.scope.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BroadcasterBuilder {
    /// Adds a sink.
    pub fn sink(mut self, sink: impl EventSink) -> Self {
        self.sinks.push(Arc::new(sink));
        self
    }

    /// Maximum pending writes per sink. Default: 1000.
    pub fn capacity(mut self, capacity: NonZero<usize>) -> Self {
        self.capacity = capacity;
        self
    }

    /// Aggregation and rate limits. Default: those of client-go.
    pub fn correlator(mut self, options: CorrelatorOptions) -> Self {
        self.correlator = options;
        self
    }

    /// Distinguishes the instances of a component. Default: the host name, which is the pod's name in a cluster;
    /// `simulation` in a simulation.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Counts events in `bowline_events_recorded_total{sink}` and `bowline_events_total{sink,result}`. Default: the
    /// cluster's metrics; none without a cluster.
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// The permissions of its sinks.
    pub(crate) fn permissions(&self) -> Vec<Permission> {
        self.sinks.iter().flat_map(|sink| sink.permissions()).collect()
    }

    pub(crate) fn or_metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics.get_or_insert_with(|| metrics.clone());
        self
    }

    /// Creates the broadcaster, not started.
    #[must_use]
    pub fn build(self) -> Broadcaster {
        let clock = self.spawner.clock();
        let host = self
            .host
            .unwrap_or_else(|| if clock.is_simulated() { "simulation".to_owned() } else { machine_name() });
        let deliveries = self.sinks.into_iter().map(|sink| {
            let counters = self.metrics.as_ref().map(|metrics| metrics.events().sink(sink.name()));
            let counters = counters.unwrap_or_default();
            let (repeats, options) = (sink.repeats(), self.correlator.clone());
            let outbox = Outbox::new(repeats, self.capacity, options, Arc::clone(&counters), clock.rng());
            Arc::new(Delivery::new(sink, counters, outbox))
        });
        let deliveries = deliveries.collect();
        // 32 random bits are enough to distinguish broadcasters that name an event in the same nanosecond.
        let salt = u32::try_from(clock.rng().next_u64() >> 32).unwrap_or_default();
        let inner = Inner {
            deliveries,
            host,
            salt,
            last_number: AtomicU64::new(0),
            scope: Mutex::new(None),
            spawner: self.spawner,
        };
        Broadcaster { inner: Arc::new(inner) }
    }
}

fn machine_name() -> String {
    hostname::get().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "unknown".to_owned())
}

impl fmt::Debug for Broadcaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broadcaster").field("sinks", &self.counts()).finish_non_exhaustive()
    }
}

impl fmt::Debug for BroadcasterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcasterBuilder").finish_non_exhaustive()
    }
}

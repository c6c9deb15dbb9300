//! From recorders to sinks.

use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bowline_clock::{Clock, Scope, Spawner};

use super::delivery::Delivery;
use super::outbox::Outbox;
use super::record::event_name;
use super::{CorrelatorOptions, EventCounts, EventRecord, Recorder, Sink};
use crate::Metrics;

/// How many writes wait for one sink, by default.
const CAPACITY: NonZero<usize> = NonZero::new(1000).unwrap();

/// Takes events from recorders and gives each to every sink. A clone is the same broadcaster.
///
/// - **It never waits for a sink**, and an event never fails: recording one takes a short lock per sink and no I/O.
/// - **What is alike is gathered at once**, before it waits for the sink: a storm of equal events takes the room of one,
///   also while the API server is away. See [`Repeats`](super::Repeats) and [`CorrelatorOptions`].
/// - **Memory is bounded**: at most 1000 writes wait for a sink ([`BroadcasterBuilder::capacity`]); what does not fit is
///   dropped and counted. What is remembered of series, similar events and sources is bounded too.
/// - **A sink that is away** is tried 12 times, about 10 s apart; what comes later waits behind.
///
/// Events wait from the start on and are written once it is [started](Self::start). Its tasks are spawned below the scope
/// whose spawner it is given. If that is drained, what waits is written, with one try each.
#[derive(Clone)]
pub struct Broadcaster {
    inner: Arc<Inner>,
}

struct Inner {
    spawner: Spawner,
    deliveries: Vec<Arc<Delivery>>,
    host: String,
    /// What tells its events from those that another names at the very same moment.
    salt: u32,
    /// The number of the last event, which no other may have.
    last_number: AtomicU64,
    /// There is one while it runs.
    scope: Mutex<Option<Scope>>,
}

/// Options of a [`Broadcaster`].
#[must_use = "a builder does nothing until `build`"]
pub struct BroadcasterBuilder {
    spawner: Spawner,
    sinks: Vec<Arc<dyn Sink>>,
    capacity: NonZero<usize>,
    correlator: CorrelatorOptions,
    host: Option<String>,
    metrics: Option<Metrics>,
}

/// How a [`Broadcaster::shutdown`] ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "events that are lost are worth a log line"]
pub struct Flushed {
    left: usize,
}

impl Flushed {
    /// Whether every event was written or refused before the limit.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// How many writes were not tried, or not to their end, of all sinks.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }
}

impl Broadcaster {
    /// A broadcaster without sinks; add them.
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

    /// A recorder of a component. Its events say that `component` reports them, and `component-host` is which one of its
    /// instances, unless it is told otherwise.
    ///
    /// The API wants a qualified name, such as `foo-controller` or `example.com/foo-controller`: what such a name may not
    /// have is replaced by `-`.
    #[must_use]
    pub fn recorder(&self, component: &str) -> Recorder {
        Recorder::new(self.clone(), component, &self.inner.host)
    }

    /// Starts to write. Nothing happens if it was started already.
    ///
    /// # Panics
    /// Outside a tokio runtime.
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

    /// Writes what waits, with one try each, and the counts of all series; gives up what is left after `limit`.
    ///
    /// Events that are recorded from now on are dropped and counted, until it is started again. If it was never started,
    /// nothing is written.
    pub async fn shutdown(&self, limit: Duration) -> Flushed {
        for delivery in &self.inner.deliveries {
            let _was_open = delivery.outbox().close();
        }
        let scope = self.scope().take();
        if let Some(scope) = scope {
            let _names = scope.drain(limit).await;
            // Who was aborted holds a letter until its thread gets to it.
            scope.ended().await;
        }
        let left = self.inner.deliveries.iter().map(|delivery| delivery.outbox().clear()).sum();
        if left > 0 {
            tracing::warn!(events = left, "events were not written before the end");
        }
        Flushed { left }
    }

    /// What became of the events, by the name of the sink, in the order of the sinks.
    #[must_use]
    pub fn counts(&self) -> Vec<(String, EventCounts)> {
        let deliveries = self.inner.deliveries.iter();
        deliveries.map(|delivery| (delivery.sink.name().to_owned(), delivery.counters.counts())).collect()
    }

    pub(super) fn clock(&self) -> &Clock {
        self.inner.spawner.clock()
    }

    /// Gives an event that has no name yet to every sink. If one of them needs a name, all get the same.
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

    /// The time as a number that no event had before: its nanoseconds, or a few more; and what no other broadcaster has.
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
    /// One more sink.
    pub fn sink(mut self, sink: impl Sink) -> Self {
        self.sinks.push(Arc::new(sink));
        self
    }

    /// How many writes may wait for one sink. Default: 1000.
    pub fn capacity(mut self, capacity: NonZero<usize>) -> Self {
        self.capacity = capacity;
        self
    }

    /// When events are combined, and when they are too many. Default: as client-go.
    pub fn correlator(mut self, options: CorrelatorOptions) -> Self {
        self.correlator = options;
        self
    }

    /// What tells the instances of a component apart. Default: the name of this machine, which is that of the pod in a
    /// cluster; `simulation` in a simulation.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Where it is counted what becomes of events: `bowline_events_recorded_total{sink}` and
    /// `bowline_events_total{sink,result}`. Default: that of the cluster, and nowhere without one.
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    pub(crate) fn or_metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics.get_or_insert_with(|| metrics.clone());
        self
    }

    /// Makes the broadcaster. It is not started.
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
        // The upper bits are as good as any, and 32 are enough for those who name an event in the same nanosecond.
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

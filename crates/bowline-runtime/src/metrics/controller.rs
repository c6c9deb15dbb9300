//! Metrics of one controller. Resolved once, when the controller is built, so that a reconcile needs no lookup.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::histogram::{Histogram, add_alone};
use super::queue::QueueMetrics;
use crate::Cause;
use crate::trigger::{Causes, TriggerSource};

/// controller-runtime's bounds, in seconds: 5 ms to a minute.
const RECONCILE_BOUNDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
];

/// Maximum number of distinct sources; all others share one label.
const SOURCES: usize = 64;

/// The label of values beyond a maximum, as in controller-runtime.
pub(super) const OTHERS: &str = "exceeded_cardinality_limit";

/// The metrics of one controller.
pub(crate) struct ControllerMetrics {
    pub(crate) failures: Counter,
    pub(crate) requeues: Counter,
    pub(crate) requeues_after: Counter,
    pub(crate) errors: Counter,
    pub(crate) terminal_errors: Counter,
    pub(crate) panics: Counter,
    pub(crate) timeouts: Counter,
    pub(crate) concurrency: Gauge,
    pub(crate) queue: Arc<QueueMetrics>,
    /// 1 from start to end.
    pub(crate) running: Gauge,
    /// 1 while it reconciles.
    pub(crate) ready: Gauge,
    sources: Mutex<BTreeMap<Box<str>, SourceMetrics>>,
    workers: Mutex<Vec<Arc<WorkerMetrics>>>,
}

/// The metrics of one worker. It is their only writer, so that workers do not contend and counting is a plain store.
pub(crate) struct WorkerMetrics {
    successes: AtomicU64,
    time: Histogram,
    is_active: AtomicBool,
}

/// The metrics of one source.
#[derive(Clone, Default)]
pub(super) struct SourceMetrics {
    triggers: Causes,
    pub(super) panics: Counter,
    pub(super) errors: Counter,
    pub(super) unhandled: Counter,
}

impl ControllerMetrics {
    pub(super) fn new() -> Self {
        Self {
            failures: Counter::default(),
            requeues: Counter::default(),
            requeues_after: Counter::default(),
            errors: Counter::default(),
            terminal_errors: Counter::default(),
            panics: Counter::default(),
            timeouts: Counter::default(),
            concurrency: Gauge::default(),
            queue: Arc::new(QueueMetrics::new()),
            running: Gauge::default(),
            ready: Gauge::default(),
            sources: Mutex::default(),
            workers: Mutex::default(),
        }
    }

    /// The metrics of one worker. A new worker continues the counts of one that ended.
    pub(crate) fn worker(&self) -> Arc<WorkerMetrics> {
        let mut workers = lock(&self.workers);
        if let Some(free) = workers.iter().find(|worker| Arc::strong_count(worker) == 1) {
            return free.clone();
        }
        let new = Arc::new(WorkerMetrics::new());
        workers.push(new.clone());
        new
    }

    /// Number of successful reconciles.
    pub(crate) fn successes(&self) -> u64 {
        lock(&self.workers).iter().map(|worker| worker.successes.load(Ordering::Relaxed)).sum()
    }

    /// Number of busy workers.
    pub(crate) fn active(&self) -> usize {
        lock(&self.workers).iter().filter(|worker| worker.is_active.load(Ordering::Relaxed)).count()
    }

    /// The durations of reconciles.
    pub(super) fn time(&self) -> Histogram {
        let time = Histogram::new(RECONCILE_BOUNDS);
        for worker in lock(&self.workers).iter() {
            time.add(&worker.time);
        }
        time
    }

    /// The metrics of a source. Sources have arbitrary names, so those beyond a maximum share one label.
    pub(crate) fn origin(&self, name: &str) -> Arc<TriggerSource> {
        let mut sources = lock(&self.sources);
        let is_told_apart = sources.contains_key(name) || sources.len() < SOURCES;
        let metrics = sources.entry(if is_told_apart { name } else { OTHERS }.into()).or_default();
        let SourceMetrics { triggers, panics, errors, unhandled } = metrics.clone();
        TriggerSource::new(name, triggers, panics, errors, unhandled)
    }

    pub(super) fn sources(&self) -> BTreeMap<Box<str>, SourceMetrics> {
        lock(&self.sources).clone()
    }
}

impl WorkerMetrics {
    fn new() -> Self {
        Self {
            successes: AtomicU64::new(0),
            time: Histogram::new(RECONCILE_BOUNDS),
            is_active: AtomicBool::new(false),
        }
    }

    /// Counts a successful reconcile.
    pub(crate) fn succeeded(&self) {
        add_alone(&self.successes, 1);
    }

    /// Records the duration of a reconcile with any outcome.
    pub(crate) fn took(&self, time: Duration) {
        self.time.observe_alone(time);
    }

    pub(crate) fn set_active(&self, is_active: bool) {
        self.is_active.store(is_active, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SourceMetrics {
    /// The causes that occurred, with their counts.
    pub(super) fn triggers(&self) -> impl Iterator<Item = (Cause, u64)> {
        let all = Cause::ALL.into_iter().zip(&self.triggers).map(|(cause, counter)| (cause, counter.get()));
        all.filter(|(_, count)| *count > 0)
    }
}

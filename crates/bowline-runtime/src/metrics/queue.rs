//! What a controller's queue reports, under client-go's names.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bowline_workqueue::{Gauges, InProgress, Metrics};
use prometheus_client::metrics::counter::Counter;

use super::histogram::Histogram;
use crate::controller::LOW_PRIORITY;

/// controller-runtime's, in seconds: 10 ns to 1000 s, each ten times the one before, with what is rounded there.
const QUEUE_BOUNDS: &[f64] = &[
    1e-8,
    1e-7,
    1e-6,
    9.999_999_999_999_999e-6,
    9.999_999_999_999_999e-5,
    0.001,
    0.01,
    0.1,
    1.0,
    10.0,
    100.0,
    1000.0,
];

/// So many priorities are told apart, as in controller-runtime; the rest is one.
const PRIORITIES: usize = 25;

/// What a queue reports.
pub(crate) struct QueueMetrics {
    pub(super) adds: Counter,
    pub(super) retries: Counter,
    pub(super) waited: Histogram,
    pub(super) worked: Histogram,
    /// Of the queue that is in use, if there is one.
    depth: Mutex<Arc<Depth>>,
    gauges: Mutex<Option<Weak<dyn Gauges>>>,
}

/// How many wait, by priority.
#[derive(Default)]
struct Depth {
    usual: AtomicI64,
    low: AtomicI64,
    other: Mutex<BTreeMap<Option<i32>, i64>>,
}

impl QueueMetrics {
    pub(super) fn new() -> Self {
        Self {
            adds: Counter::default(),
            retries: Counter::default(),
            waited: Histogram::new(QUEUE_BOUNDS),
            worked: Histogram::new(QUEUE_BOUNDS),
            depth: Mutex::default(),
            gauges: Mutex::default(),
        }
    }

    /// A queue begins to report, and none that reported before counts any more.
    pub(crate) fn sink(self: &Arc<Self>) -> Sink {
        let depth = Arc::new(Depth::default());
        *lock(&self.depth) = depth.clone();
        Sink { metrics: self.clone(), depth }
    }

    /// No queue is in use, and nothing waits.
    pub(crate) fn end(&self) {
        *lock(&self.depth) = Arc::default();
        *lock(&self.gauges) = None;
    }

    /// How many wait, by priority; none for those beyond what is told apart.
    pub(super) fn depth(&self) -> BTreeMap<Option<i32>, i64> {
        let depth = lock(&self.depth).clone();
        let mut all = lock(&depth.other).clone();
        all.insert(Some(0), depth.usual.load(Ordering::Relaxed));
        all.insert(Some(LOW_PRIORITY), depth.low.load(Ordering::Relaxed));
        all
    }

    pub(super) fn in_progress(&self) -> InProgress {
        let gauges = lock(&self.gauges).as_ref().and_then(Weak::upgrade);
        gauges.map(|gauges| gauges.in_progress()).unwrap_or_default()
    }
}

impl Depth {
    #[inline]
    fn change(&self, priority: i32, by: i64) {
        match priority {
            0 => {
                self.usual.fetch_add(by, Ordering::Relaxed);
            }
            LOW_PRIORITY => {
                self.low.fetch_add(by, Ordering::Relaxed);
            }
            _ => {
                let mut other = lock(&self.other);
                let is_told_apart = other.contains_key(&Some(priority)) || other.len() + 3 < PRIORITIES;
                *other.entry(Some(priority).filter(|_| is_told_apart)).or_default() += by;
            }
        }
    }
}

/// What a queue is given. A queue that is gone may still report what it has left, where nobody looks any more.
pub(crate) struct Sink {
    metrics: Arc<QueueMetrics>,
    depth: Arc<Depth>,
}

impl Metrics for Sink {
    fn added(&self, priority: i32) {
        self.metrics.adds.inc();
        self.depth.change(priority, 1);
    }

    fn added_many(&self, priority: i32, count: usize) {
        self.metrics.adds.inc_by(count as u64);
        self.depth.change(priority, i64::try_from(count).unwrap_or(i64::MAX));
    }

    fn raised(&self, from: i32, to: i32) {
        self.depth.change(from, -1);
        self.depth.change(to, 1);
    }

    fn handed_out(&self, priority: i32, waited: Duration) {
        self.depth.change(priority, -1);
        self.metrics.waited.observe(waited);
    }

    fn finished(&self, worked: Duration) {
        self.metrics.worked.observe(worked);
    }

    fn retried(&self) {
        self.metrics.retries.inc();
    }

    fn attach(&self, gauges: Weak<dyn Gauges>) {
        *lock(&self.metrics.gauges) = Some(gauges);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

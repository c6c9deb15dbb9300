//! Metrics of a controller's queue, with client-go's names.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bowline_workqueue::{Gauges, InProgress, Metrics};
use prometheus_client::metrics::counter::Counter;

use super::histogram::Histogram;
use crate::controller::LOW_PRIORITY;

/// controller-runtime's bounds in seconds: 10 ns to 1000 s, each ten times the previous one, with its rounding errors.
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

/// Maximum number of distinct priorities, as in controller-runtime; all others share one label.
const PRIORITIES: usize = 25;

/// The metrics of a queue.
pub(crate) struct QueueMetrics {
    pub(super) adds: Counter,
    pub(super) retries: Counter,
    pub(super) waited: Histogram,
    pub(super) worked: Histogram,
    /// The depth of the current queue, if there is one.
    depth: Mutex<Arc<Depth>>,
    gauges: Mutex<Option<Weak<dyn Gauges>>>,
}

/// The number of ready keys by priority.
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

    /// Creates the sink of a new queue; earlier queues no longer count.
    pub(crate) fn sink(self: &Arc<Self>) -> Sink {
        let depth = Arc::new(Depth::default());
        *lock(&self.depth) = depth.clone();
        Sink { metrics: self.clone(), depth }
    }

    /// Resets the depth when no queue is in use.
    pub(crate) fn end(&self) {
        *lock(&self.depth) = Arc::default();
        *lock(&self.gauges) = None;
    }

    /// The number of ready keys by priority; `None` for priorities beyond the maximum.
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

/// The sink of one queue. A queue that has ended may still report its remaining keys, which do not count.
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

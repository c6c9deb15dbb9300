//! What a controller's queue reports, under client-go's names.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bowline_workqueue::{Gauges, InProgress, Metrics};
use prometheus_client::metrics::counter::Counter;

use super::histogram::Histogram;
use crate::controller::LOW_PRIORITY;

/// client-go's, in nanoseconds: 10 ns to 1000 s, each ten times the one before.
const QUEUE_BOUNDS: &[u64] = &[
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
    10_000_000_000,
    100_000_000_000,
    1_000_000_000_000,
];

/// So many priorities are told apart, as in controller-runtime; the rest is one.
const PRIORITIES: usize = 25;

/// What a queue reports.
pub(crate) struct QueueMetrics {
    pub(super) adds: Counter,
    pub(super) retries: Counter,
    pub(super) waited: Histogram,
    pub(super) worked: Histogram,
    usual: AtomicI64,
    low: AtomicI64,
    other: Mutex<BTreeMap<Option<i32>, i64>>,
    gauges: Mutex<Option<Weak<dyn Gauges>>>,
}

impl QueueMetrics {
    pub(super) fn new() -> Self {
        Self {
            adds: Counter::default(),
            retries: Counter::default(),
            waited: Histogram::new(QUEUE_BOUNDS),
            worked: Histogram::new(QUEUE_BOUNDS),
            usual: AtomicI64::new(0),
            low: AtomicI64::new(0),
            other: Mutex::default(),
            gauges: Mutex::default(),
        }
    }

    /// A queue begins to report, and none that reported before counts any more.
    pub(crate) fn sink(self: &Arc<Self>) -> Sink {
        self.usual.store(0, Ordering::Relaxed);
        self.low.store(0, Ordering::Relaxed);
        lock(&self.other).clear();
        Sink(self.clone())
    }

    /// How many wait, by priority; none for those beyond what is told apart.
    pub(super) fn depth(&self) -> BTreeMap<Option<i32>, i64> {
        let mut depth = lock(&self.other).clone();
        depth.insert(Some(0), self.usual.load(Ordering::Relaxed));
        depth.insert(Some(LOW_PRIORITY), self.low.load(Ordering::Relaxed));
        depth
    }

    pub(super) fn in_progress(&self) -> InProgress {
        let gauges = lock(&self.gauges).as_ref().and_then(Weak::upgrade);
        gauges.map(|gauges| gauges.in_progress()).unwrap_or_default()
    }

    #[inline]
    fn change_depth(&self, priority: i32, by: i64) {
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

/// What a queue is given. A queue that is gone may still report what it has left; that is told apart by the controller,
/// which has one at a time.
pub(crate) struct Sink(Arc<QueueMetrics>);

impl Metrics for Sink {
    fn added(&self, priority: i32) {
        self.0.adds.inc();
        self.0.change_depth(priority, 1);
    }

    fn raised(&self, from: i32, to: i32) {
        self.0.change_depth(from, -1);
        self.0.change_depth(to, 1);
    }

    fn handed_out(&self, priority: i32, waited: Duration) {
        self.0.change_depth(priority, -1);
        self.0.waited.observe(waited);
    }

    fn finished(&self, worked: Duration) {
        self.0.worked.observe(worked);
    }

    fn retried(&self) {
        self.0.retries.inc();
    }

    fn attach(&self, gauges: Weak<dyn Gauges>) {
        *lock(&self.0.gauges) = Some(gauges);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

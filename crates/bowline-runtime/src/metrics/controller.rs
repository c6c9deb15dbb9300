//! What one controller counts. Resolved once, when the controller is built: a reconcile looks nothing up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::histogram::Histogram;
use super::queue::QueueMetrics;
use crate::Cause;

/// controller-runtime's, in nanoseconds: 5 ms to a minute.
const RECONCILE_BOUNDS: &[u64] = &{
    let milliseconds = [
        5_u64, 10, 25, 50, 100, 150, 200, 250, 300, 350, 400, 450, 500, 600, 700, 800, 900, 1000, 1250, 1500,
        1750, 2000, 2500, 3000, 3500, 4000, 4500, 5000, 6000, 7000, 8000, 9000, 10_000, 15_000, 20_000,
        25_000, 30_000, 40_000, 50_000, 60_000,
    ];
    let mut nanoseconds = [0; 40];
    let mut at = 0;
    while at < 40 {
        nanoseconds[at] = milliseconds[at] * 1_000_000;
        at += 1;
    }
    nanoseconds
};

/// What one controller counts.
pub(crate) struct ControllerMetrics {
    pub(crate) successes: Counter,
    pub(crate) failures: Counter,
    pub(crate) requeues: Counter,
    pub(crate) requeues_after: Counter,
    pub(crate) errors: Counter,
    pub(crate) terminal_errors: Counter,
    pub(crate) panics: Counter,
    pub(crate) timeouts: Counter,
    pub(crate) time: Histogram,
    pub(crate) concurrency: Gauge,
    pub(crate) active: Gauge,
    pub(crate) queue: Arc<QueueMetrics>,
    /// By source and cause.
    triggers: Mutex<BTreeMap<(Box<str>, Cause), Counter>>,
}

impl ControllerMetrics {
    pub(super) fn new() -> Self {
        Self {
            successes: Counter::default(),
            failures: Counter::default(),
            requeues: Counter::default(),
            requeues_after: Counter::default(),
            errors: Counter::default(),
            terminal_errors: Counter::default(),
            panics: Counter::default(),
            timeouts: Counter::default(),
            time: Histogram::new(RECONCILE_BOUNDS),
            concurrency: Gauge::default(),
            active: Gauge::default(),
            queue: Arc::new(QueueMetrics::new()),
            triggers: Mutex::default(),
        }
    }

    /// The counter of a source and a cause.
    pub(crate) fn trigger(&self, source: &str, cause: Cause) -> Counter {
        let mut triggers = self.triggers.lock().unwrap_or_else(PoisonError::into_inner);
        triggers.entry((source.into(), cause)).or_default().clone()
    }

    /// Those that count something.
    pub(super) fn triggers(&self) -> Vec<(Box<str>, Cause, u64)> {
        let triggers = self.triggers.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = triggers.iter().filter(|(_, counter)| counter.get() > 0);
        counted.map(|((source, cause), counter)| (source.clone(), *cause, counter.get())).collect()
    }
}

//! What one controller counts. Resolved once, when the controller is built: a reconcile looks nothing up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::histogram::Histogram;
use super::queue::QueueMetrics;
use crate::Cause;
use crate::trigger::{Causes, Origin};

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

/// So many sources are told apart; the rest is one.
const SOURCES: usize = 64;

/// What is counted as one because there is too much of it, as in controller-runtime.
pub(super) const OTHERS: &str = "exceeded_cardinality_limit";

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
    /// 1 from start to end.
    pub(crate) running: Gauge,
    /// 1 while it reconciles.
    pub(crate) ready: Gauge,
    sources: Mutex<BTreeMap<Box<str>, SourceMetrics>>,
}

/// What is counted of one source.
#[derive(Clone, Default)]
pub(super) struct SourceMetrics {
    triggers: Causes,
    pub(super) panics: Counter,
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
            running: Gauge::default(),
            ready: Gauge::default(),
            sources: Mutex::default(),
        }
    }

    /// A source that is counted here. Watches come and go under names that somebody thinks of, so beyond so many they
    /// are counted as one.
    pub(crate) fn origin(&self, name: &str) -> Arc<Origin> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let is_told_apart = sources.contains_key(name) || sources.len() < SOURCES;
        let metrics = sources.entry(if is_told_apart { name } else { OTHERS }.into()).or_default();
        Origin::new(name, metrics.triggers.clone(), metrics.panics.clone())
    }

    pub(super) fn sources(&self) -> BTreeMap<Box<str>, SourceMetrics> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl SourceMetrics {
    /// The causes that there were.
    pub(super) fn triggers(&self) -> impl Iterator<Item = (Cause, u64)> {
        let all = Cause::ALL.into_iter().zip(&self.triggers).map(|(cause, counter)| (cause, counter.get()));
        all.filter(|(_, count)| *count > 0)
    }
}

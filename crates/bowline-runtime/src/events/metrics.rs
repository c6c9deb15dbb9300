//! Counters of events.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

/// Counters of the events of one sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventCounts {
    /// Recorded events.
    pub recorded: u64,
    /// Successful writes: first ones, and updates of a count.
    pub sent: u64,
    /// Events that only increased the count of a series.
    pub counted: u64,
    /// Events over the rate limit of their source and object, not written.
    pub filtered: u64,
    /// Events dropped because too many were pending, or because the broadcaster was stopped.
    pub dropped: u64,
    /// Writes that the sink rejected, or that used up their attempts.
    pub failed: u64,
    /// Failed attempts that were repeated.
    pub retried: u64,
}

/// Selects a counter.
type Of = fn(EventCounts) -> u64;

/// A counter.
#[derive(Clone, Copy)]
pub(super) enum Count {
    Recorded,
    Sent,
    Counted,
    Filtered,
    Dropped,
    Failed,
    Retried,
}

/// The counters of one sink.
#[derive(Debug, Default)]
pub(crate) struct Counters([AtomicU64; 7]);

impl Counters {
    pub(super) fn add(&self, count: Count, more: u64) {
        self.0[count as usize].fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> EventCounts {
        let of = |count: Count| self.0[count as usize].load(Ordering::Relaxed);
        EventCounts {
            recorded: of(Count::Recorded),
            sent: of(Count::Sent),
            counted: of(Count::Counted),
            filtered: of(Count::Filtered),
            dropped: of(Count::Dropped),
            failed: of(Count::Failed),
            retried: of(Count::Retried),
        }
    }
}

/// The sinks of all broadcasters of a registry. Sinks with the same name are added up, including dropped ones, so that
/// counters never decrease.
#[derive(Debug, Default)]
pub(crate) struct EventCatalog {
    sinks: Mutex<BTreeMap<String, Vec<Arc<Counters>>>>,
}

impl EventCatalog {
    /// Creates the counters of a sink.
    pub(super) fn sink(&self, name: &str) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        let mut sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        sinks.entry(name.to_owned()).or_default().push(Arc::clone(&counters));
        counters
    }
}

impl Collector for EventCatalog {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if sinks.is_empty() {
            return Ok(());
        }
        let sum =
            |counters: &[Arc<Counters>], of: Of| -> u64 { counters.iter().map(|it| of(it.counts())).sum() };
        let help = "Total number of events that were recorded, by sink";
        let mut recorded =
            encoder.encode_descriptor("bowline_events_recorded", help, None, MetricType::Counter)?;
        for (sink, counters) in &sinks {
            let labels = [("sink", sink.as_str())];
            let family = recorded.encode_family(&labels)?;
            ConstCounter::new(sum(counters, |it| it.recorded)).encode(family)?;
        }
        let help = "Total number of events by sink and result";
        let mut results = encoder.encode_descriptor("bowline_events", help, None, MetricType::Counter)?;
        let all: [(&str, Of); 6] = [
            ("counted", |it| it.counted),
            ("dropped", |it| it.dropped),
            ("failed", |it| it.failed),
            ("filtered", |it| it.filtered),
            ("retried", |it| it.retried),
            ("sent", |it| it.sent),
        ];
        for (sink, counters) in &sinks {
            for (result, of) in all {
                let labels = [("sink", sink.as_str()), ("result", result)];
                let family = results.encode_family(&labels)?;
                ConstCounter::new(sum(counters, of)).encode(family)?;
            }
        }
        Ok(())
    }
}

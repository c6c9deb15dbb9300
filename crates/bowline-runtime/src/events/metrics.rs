//! What became of events, as numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

/// What became of the events that one sink was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventCounts {
    /// Events that recorders told.
    pub recorded: u64,
    /// Writes that the sink took: first ones, and those that only raise a count.
    pub sent: u64,
    /// Events that were only added to a series.
    pub counted: u64,
    /// Events that were not written because their source told too many about their object.
    pub filtered: u64,
    /// Events that were not written because too many wait, or because nothing is written any more.
    pub dropped: u64,
    /// Writes that the sink refused, or that were tried too often.
    pub failed: u64,
    /// Tries that were not the last.
    pub retried: u64,
}

/// Picks one of the numbers.
type Of = fn(EventCounts) -> u64;

/// One of the numbers.
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

/// The numbers of one sink, shared with whoever shows them.
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

/// The sinks of all broadcasters of a registry. Sinks of one name are added up, those that are gone among them: what is counted
/// never goes back.
#[derive(Debug, Default)]
pub(crate) struct EventCatalog {
    sinks: Mutex<BTreeMap<String, Vec<Arc<Counters>>>>,
}

impl EventCatalog {
    /// Where a sink of this name counts.
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
        let help = "Total number of events by sink and by what became of them";
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

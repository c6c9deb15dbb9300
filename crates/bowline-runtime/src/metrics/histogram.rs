//! A histogram of durations without a lock, so that workers can observe concurrently.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{MetricEncoder, NoLabelSet};

/// Counts durations by size.
pub(crate) struct Histogram {
    /// The upper bounds in seconds, ascending; the last bucket has none.
    bounds: &'static [f64],
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum: AtomicU64::new(0) }
    }

    #[inline]
    pub(crate) fn observe(&self, duration: Duration) {
        let (bucket, nanos) = self.place(duration);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Observes without atomic addition, for a single writer: concurrent observations may be lost.
    #[inline]
    pub(crate) fn observe_alone(&self, duration: Duration) {
        let (bucket, nanos) = self.place(duration);
        add_alone(&self.buckets[bucket], 1);
        add_alone(&self.sum, nanos);
    }

    /// The bucket of a duration, and the duration in nanoseconds.
    #[inline]
    fn place(&self, duration: Duration) -> (usize, u64) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let seconds = duration.as_secs_f64();
        // Most durations are short, so a linear search ends at once.
        (self.bounds.iter().position(|bound| seconds <= *bound).unwrap_or(self.bounds.len()), nanos)
    }

    /// Adds the counts of another histogram with the same bounds.
    pub(crate) fn add(&self, other: &Self) {
        for (bucket, more) in self.buckets.iter().zip(&other.buckets) {
            bucket.fetch_add(more.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.sum.fetch_add(other.sum.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds need no more digits than these have")]
    pub(crate) fn encode(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = self.sum.load(Ordering::Relaxed) as f64 / 1e9;
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }
}

/// Adds for a single writer: a fraction of the cost of an atomic addition.
#[inline]
pub(super) fn add_alone(to: &AtomicU64, more: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

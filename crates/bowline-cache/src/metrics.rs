//! Measurements of an informer.

use std::time::Duration;

/// Receives measurements of one informer. By default, every method does nothing.
///
/// There is no registry and there are no metric names: a receiver belongs to one informer, and adds its own names and
/// labels. Values that can be polled are in [`InformerStats`](crate::InformerStats). Methods must be quick and must not
/// block.
pub trait Metrics: Send + Sync + 'static {
    /// A list was completed in this time, decoding included.
    fn listed(&self, took: Duration) {
        let _ = took;
    }

    /// A watch was opened.
    fn watch_began(&self) {}

    /// A watch ended after this time.
    fn watch_ended(&self, lasted: Duration) {
        let _ = lasted;
    }

    /// A watch delivered this many changes.
    fn events(&self, count: usize) {
        let _ = count;
    }

    /// A list or watch failed.
    fn failed(&self) {}

    /// An object could not be decoded, and is left out.
    fn undecodable(&self) {}
}

/// Discards all measurements.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoMetrics;

impl Metrics for NoMetrics {}

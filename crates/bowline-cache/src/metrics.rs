//! Where an informer reports what it does.

use std::time::Duration;

/// Receives what happens in one informer. Every method does nothing by default.
///
/// As with a work queue's, there is no registry and there are no names: a sink belongs to one informer and puts its own name
/// and labels on what it gets. What can be asked for instead of being told is in [`Stats`](crate::Stats). Methods must be
/// quick, and must not wait.
pub trait Metrics: Send + Sync + 'static {
    /// Everything was listed, in so long, decoding included.
    fn listed(&self, took: Duration) {
        let _ = took;
    }

    /// A watch was opened.
    fn watch_began(&self) {}

    /// A watch was over after so long.
    fn watch_ended(&self, lasted: Duration) {
        let _ = lasted;
    }

    /// A watch told of so many changes.
    fn events(&self, count: usize) {
        let _ = count;
    }

    /// A list or watch failed.
    fn failed(&self) {}

    /// An object could not be read and was set aside.
    fn set_aside(&self) {}
}

/// Reports nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoMetrics;

impl Metrics for NoMetrics {}

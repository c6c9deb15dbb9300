//! The interface for a queue's metrics.

use std::sync::Weak;
use std::time::Duration;

use crate::InProgress;

/// Receives the events of one queue. Every method does nothing by default.
///
/// The queue has no registry and no names: a sink belongs to one queue and adds its own name and labels. A queue
/// without a sink reads no clock for metrics and keeps no times.
///
/// Methods are called outside the queue's lock, so calls of different threads may come in another order than the
/// events. Each is an increment, so the sums are right. They must be fast, and must not block. A
/// panic in one is caught and counted in [`QueueStats::sink_panics`](crate::QueueStats::sink_panics); callers and
/// keys are not affected.
///
/// | method | client-go's metric |
/// |---|---|
/// | [`added`](Metrics::added), [`added_many`](Metrics::added_many) | `adds_total` +1, `depth{priority}` +1, for each key |
/// | [`raised`](Metrics::raised) | `depth{from}` −1, `depth{to}` +1 |
/// | [`handed_out`](Metrics::handed_out) | `depth{priority}` −1, `queue_duration_seconds` |
/// | [`finished`](Metrics::finished) | `work_duration_seconds` |
/// | [`retried`](Metrics::retried) | `retries_total` +1 |
/// | [`attach`](Metrics::attach) | `unfinished_work_seconds`, `longest_running_processor_seconds`, read when scraped |
/// | [`dropped`](Metrics::dropped) | none: additions dropped by a shutdown |
pub trait Metrics: Send + Sync + 'static {
    /// A key became ready. Adding a ready key again is not reported.
    fn added(&self, priority: i32) {
        let _ = priority;
    }

    /// `count` keys of one priority became ready together. Default: calls [`added`](Self::added) for each.
    fn added_many(&self, priority: i32, count: usize) {
        for _ in 0..count {
            self.added(priority);
        }
    }

    /// The priority of a ready key changed.
    fn raised(&self, from: i32, to: i32) {
        let _ = (from, to);
    }

    /// A worker got a key that was ready for the duration `waited`.
    fn handed_out(&self, priority: i32, waited: Duration) {
        let _ = (priority, waited);
    }

    /// A worker finished a key after the duration `worked`.
    fn finished(&self, worked: Duration) {
        let _ = worked;
    }

    /// A key was added with a delay or through the rate limiter.
    fn retried(&self) {}

    /// `count` additions were dropped: delayed ones at shutdown, or any after it.
    fn dropped(&self, count: usize) {
        let _ = count;
    }

    /// Called once, when the queue is built. At each scrape, the sink can read the keys held by workers from `gauges`.
    /// A key whose guard was leaked counts forever.
    fn attach(&self, gauges: Weak<dyn Gauges>) {
        let _ = gauges;
    }
}

/// Values that a sink reads from its queue, see [`Metrics::attach`].
pub trait Gauges: Send + Sync {
    /// The keys held by workers now.
    fn in_progress(&self) -> InProgress;
}

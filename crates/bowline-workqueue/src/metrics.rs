//! Where a queue reports what it does.

use std::sync::Weak;
use std::time::Duration;

use crate::InProgress;

/// Receives what happens in one queue. Every method does nothing by default.
///
/// The queue has no registry and no names: a sink belongs to one queue and puts its own name and labels on what
/// it gets. A queue without a sink reads no clock for metrics and keeps no times.
///
/// Methods are called outside the queue's lock, so calls from different threads may come in another order than
/// what they report; each is an increment, so the sums are right. They must be quick, and they must not wait. A
/// panic in one is caught and counted in [`Stats::sink_panics`](crate::Stats::sink_panics); neither the caller
/// nor any key is hurt.
///
/// | method | client-go's metric |
/// |---|---|
/// | [`added`](Metrics::added), [`added_many`](Metrics::added_many) | `adds_total` +1, `depth{priority}` +1, for each key |
/// | [`raised`](Metrics::raised) | `depth{from}` −1, `depth{to}` +1 |
/// | [`handed_out`](Metrics::handed_out) | `depth{priority}` −1, `queue_duration_seconds` |
/// | [`finished`](Metrics::finished) | `work_duration_seconds` |
/// | [`retried`](Metrics::retried) | `retries_total` +1 |
/// | [`attach`](Metrics::attach) | `unfinished_work_seconds`, `longest_running_processor_seconds`, asked for when scraped |
/// | [`dropped`](Metrics::dropped) | none: additions that a shutdown left undone |
pub trait Metrics: Send + Sync + 'static {
    /// A key began to wait for a worker. Adding a key that already does is not reported.
    fn added(&self, priority: i32) {
        let _ = priority;
    }

    /// So many keys of one priority began to wait for a worker, one after another. By default [`added`](Self::added) is
    /// called as often.
    fn added_many(&self, priority: i32, count: usize) {
        for _ in 0..count {
            self.added(priority);
        }
    }

    /// A key that waits for a worker now does so with another priority.
    fn raised(&self, from: i32, to: i32) {
        let _ = (from, to);
    }

    /// A worker got a key that had waited for so long.
    fn handed_out(&self, priority: i32, waited: Duration) {
        let _ = (priority, waited);
    }

    /// A worker was done with a key after so long.
    fn finished(&self, worked: Duration) {
        let _ = worked;
    }

    /// A key was added with a delay or through the rate limiter.
    fn retried(&self) {}

    /// So many additions were dropped: delayed ones at shutdown, or any after it.
    fn dropped(&self, count: usize) {
        let _ = count;
    }

    /// Called once, when the queue is built: by `gauges` the sink can ask what workers are busy with, whenever
    /// it is scraped. A key whose guard was leaked shows there for ever.
    fn attach(&self, gauges: Weak<dyn Gauges>) {
        let _ = gauges;
    }
}

/// What a sink can ask its queue, see [`Metrics::attach`].
pub trait Gauges: Send + Sync {
    /// What workers are busy with now.
    fn in_progress(&self) -> InProgress;
}

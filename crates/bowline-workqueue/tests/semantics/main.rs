//! The guarantees of the queue, tested through its public API on simulated time.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod batch;
mod deduplication;
mod delay;
mod faults;
mod limiters;
mod metrics;
mod payload;
mod priority;
mod shutdown;
mod waiting;

use std::collections::BTreeSet;
use std::time::Duration;

use bowline_clock::{Clock, Scope, Simulation};
use bowline_workqueue::{Coalesce, Key, WorkQueue};

const SECOND: Duration = Duration::from_secs(1);

type Queue = WorkQueue<&'static str>;
/// A queue whose payload is the set of reasons for a run.
type Reasons = WorkQueue<&'static str, BTreeSet<&'static str>>;

/// Runs a test on simulated time.
fn simulate<F: Future<Output = ()>>(world: impl FnOnce(Clock) -> F) {
    Simulation::new(0).run(world);
}

/// Takes and finishes all ready keys, and returns their order.
fn work_off<K: Key, P: Coalesce>(queue: &WorkQueue<K, P>) -> Vec<K> {
    std::iter::from_fn(|| queue.try_get().map(|item| item.key().clone())).collect()
}

/// Three workers that each take a key and hold it.
fn three_holders(clock: &Clock, queue: &Queue) -> Scope {
    let scope = clock.scope("workers");
    for worker in ["one", "two", "three"] {
        let queue = queue.clone();
        scope.spawn(worker, async move {
            let _item = queue.get().await;
            std::future::pending::<()>().await;
        });
    }
    scope
}

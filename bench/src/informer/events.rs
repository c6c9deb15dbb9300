//! `informer-events`: from the start signal until the last of three handlers has the last update.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline_clock::Clock;
use tokio::sync::oneshot;

use super::subject::Run;
use super::{BETWEEN_LOOKS, CALLBACKS, EVENTS_PER_S, Task};
use crate::apiserver::client::{Asked, Client};
use crate::apiserver::load::Failure;
use crate::go::CLIENT_GO;
use crate::maker::KUBE_RS;
use crate::metric::{CPU_S, RSS_PEAK_MIB, RSS_SETTLED_MIB};
use crate::process;
use crate::report::{Target, row};
use crate::subject::{Measured, Work};

/// Number of handlers of one informer. The Go programs have as many.
pub(super) const HANDLERS: usize = 3;

/// Timeout for the handlers.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn work(n: usize, updates: usize) -> Work {
    let variant = format!("updates={updates} handlers={HANDLERS} n={n}");
    let twice = [(CLIENT_GO.name, Target::AtLeast(2.0)), (KUBE_RS, Target::AtLeast(2.0))];
    let rows = vec![
        row(&variant, EVENTS_PER_S, &twice),
        row(&variant, CALLBACKS, &[]),
        row(&variant, CPU_S, &[]),
        row(&variant, RSS_PEAK_MIB, &[]),
        row(&variant, RSS_SETTLED_MIB, &[]),
    ];
    super::work(&variant, Task::Events, &[("n", n), ("updates", updates)], rows)
}

/// A handler that reads each object and counts.
pub(super) struct Handler {
    initial: Expected,
    updates: Expected,
    sum: u64,
}

/// Number of expected calls; the sender fires after the last one.
struct Expected {
    /// Written only by the handler.
    left: Arc<AtomicUsize>,
    over: Option<oneshot::Sender<u64>>,
}

/// Reports when a handler has all updates.
pub(super) struct Seen {
    initial: oneshot::Receiver<u64>,
    updates: oneshot::Receiver<u64>,
    updates_left: Arc<AtomicUsize>,
}

/// A handler of an informer of `n` objects that expects this number of updates.
pub(super) fn handler(n: usize, updates: usize) -> (Handler, Seen) {
    let (initial_over, initial) = oneshot::channel();
    let (updates_over, seen) = oneshot::channel();
    let updates_left = Arc::new(AtomicUsize::new(updates));
    let handler = Handler {
        initial: Expected { left: Arc::new(AtomicUsize::new(n)), over: Some(initial_over) },
        updates: Expected { left: updates_left.clone(), over: Some(updates_over) },
        sum: 0,
    };
    (handler, Seen { initial, updates: seen, updates_left })
}

impl Handler {
    /// Counts an initial object, or an update, by its change number.
    pub(super) fn see(&mut self, change: u64) {
        self.sum += change;
        if change == 0 { self.initial.count(0) } else { self.updates.count(self.sum) }
    }
}

impl Expected {
    fn count(&mut self, sum: u64) {
        let left = self.left.load(Ordering::Relaxed).saturating_sub(1);
        self.left.store(left, Ordering::Relaxed);
        if left == 0
            && let Some(over) = self.over.take()
        {
            // The receiver is gone if the run failed.
            let _ = over.send(sum);
        }
    }
}

/// Measures from the start signal until all handlers have all updates. The informer runs already.
///
/// # Errors
/// When the server does not start, a handler ends too early, or misses an update.
#[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53")]
pub(super) async fn measure(run: &Run, handlers: Vec<Seen>) -> Result<Measured, Failure> {
    let mut waiting = Vec::new();
    for handler in handlers {
        handler.initial.await?;
        waiting.push((handler.updates, handler.updates_left));
    }
    let clock = Clock::real();
    let mut connection = Client::new(&run.endpoint, run.scope.spawner())?.connect().await?;
    let (began, cpu) = (clock.now(), process::cpu_seconds());
    connection.ask(Asked::post("/go", Vec::new())).await?;
    let mut sums = Vec::new();
    for (seen, left) in waiting {
        let Ok(sum) = clock.timeout(PATIENCE, seen).await else {
            let left = left.load(Ordering::Relaxed);
            return Err(format!("a handler was called {left} times less than there were updates").into());
        };
        sums.push(sum?);
    }
    let (wall, cpu) = (clock.now().duration_since(began).as_secs_f64(), process::cpu_seconds() - cpu);
    // Each object counts from one to the number of rounds.
    let rounds = (run.updates / run.n) as u64;
    let wanted = run.n as u64 * rounds * (rounds + 1) / 2;
    // With kube-rs the sum can be higher: its handlers get keys, and read the object later.
    if let Some(sum) = sums.iter().find(|sum| **sum < wanted) {
        return Err(format!("a handler saw changes that sum up to {sum}, less than {wanted}").into());
    }
    let peak = process::status_mib("VmHWM");
    let settled = process::settled(&clock, BETWEEN_LOOKS, || Ok(process::status_mib("VmRSS"))).await?;
    let values = [
        (EVENTS_PER_S, run.updates as f64 / wall),
        (CALLBACKS, (run.updates * sums.len()) as f64),
        (CPU_S, cpu),
        (RSS_PEAK_MIB, peak),
        (RSS_SETTLED_MIB, settled),
    ];
    Ok(values.into_iter().map(|(metric, value)| (metric.name.to_owned(), value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_tells_when_it_has_seen_all_and_no_sooner() {
        let (mut handler, mut seen) = handler(2, 3);
        handler.see(0);
        assert!(seen.initial.try_recv().is_err());
        handler.see(0);
        assert_eq!(seen.initial.try_recv(), Ok(0));
        for change in [1, 1] {
            handler.see(change);
        }
        assert!(seen.updates.try_recv().is_err());
        handler.see(2);
        assert_eq!(seen.updates.try_recv(), Ok(4), "the sum identifies the updates");
    }
}

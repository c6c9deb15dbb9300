//! `reconcile-throughput`: reconciles per second of cached objects without changes.
//!
//! Each object is reconciled once when it is listed, which does not count. Then it is triggered once per round, from
//! outside the API server. A round starts when all reconciles of the previous one are done: so triggers never merge,
//! and every subject makes as many reconciles.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::Task;
use super::subject::Run;
use crate::apiserver::load::Failure;
use crate::go::CONTROLLER_RUNTIME;
use crate::maker::KUBE_RS;
use crate::metric::CPU_S;
use crate::process;
use crate::report::{Metric, Target, row};
use crate::subject::{Measured, Work};

/// Number of counted reconciles of each object.
pub(super) const ROUNDS: usize = 5;

/// Capacity of the channel to a controller, as in the Go program.
pub(super) const TRIGGERS_AHEAD: usize = 1024;

const WORKERS: [usize; 2] = [1, 8];

const RECONCILES_PER_S: Metric = Metric { name: "reconciles_per_s", unit: "reconciles/s" };

/// Timeout of a round.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn work(n: usize) -> Vec<Work> {
    WORKERS
        .map(|workers| {
            let variant = format!("workers={workers} n={n}");
            let targets = [(CONTROLLER_RUNTIME.name, Target::AtLeast(3.0)), (KUBE_RS, Target::AtLeast(5.0))];
            let rows = vec![row(&variant, RECONCILES_PER_S, &targets), row(&variant, CPU_S, &[])];
            let arguments = [("n", n / ROUNDS), ("workers", workers), ("rounds", ROUNDS)];
            super::work(&variant, Task::Throughput, &arguments, rows)
        })
        .into()
}

/// Counts reconciles, and reports when all objects have had one more.
pub(super) struct Counter {
    n: usize,
    entered: AtomicUsize,
    over: Notify,
}

impl Counter {
    pub(super) fn new(run: &Run) -> Self {
        Self { n: run.n, entered: AtomicUsize::new(0), over: Notify::new() }
    }

    /// Callback of a reconciler, which otherwise only reads its object.
    pub(super) fn enter(&self) {
        let entered = self.entered.fetch_add(1, Ordering::Relaxed) + 1;
        if entered.is_multiple_of(self.n) {
            self.over.notify_one();
        }
    }

    async fn round(&self, run: &Run) -> Result<(), Failure> {
        let clock = run.clock();
        if clock.timeout(PATIENCE, self.over.notified()).await.is_err() {
            let entered = self.entered.load(Ordering::Relaxed);
            return Err(format!("a round was not over in time, after {entered} reconciles in all").into());
        }
        Ok(())
    }
}

/// Measures all rounds. The controller runs already; `trigger` triggers the object with a number.
///
/// # Errors
/// When the numbers of reconciles and triggers differ.
#[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53")]
pub(super) async fn measure<F>(
    run: &Run,
    counter: &Counter,
    trigger: impl Fn(usize) -> F,
) -> Result<Measured, Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    counter.round(run).await?;
    let (began, cpu) = (run.clock().now(), process::cpu_seconds());
    for _ in 0..run.rounds {
        for number in 0..run.n {
            trigger(number).await?;
        }
        counter.round(run).await?;
    }
    let (wall, cpu) = (run.clock().now().duration_since(began).as_secs_f64(), process::cpu_seconds() - cpu);
    let (entered, wanted) = (counter.entered.load(Ordering::Relaxed), run.n * (run.rounds + 1));
    if entered != wanted {
        return Err(format!("{entered} reconciles, not {wanted}").into());
    }
    let rate = (run.n * run.rounds) as f64 / wall;
    Ok(Measured::from([(RECONCILES_PER_S.name.to_owned(), rate), (CPU_S.name.to_owned(), cpu)]))
}

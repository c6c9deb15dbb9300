//! `reconcile-latency`: from when the server sends an update until the reconciler is called for its object.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use bowline_clock::Clock;
use tokio::sync::{Mutex, Notify, mpsc};

use super::Task;
use super::subject::Run;
use crate::apiserver::client::{Asked, Client};
use crate::apiserver::load::Failure;
use crate::go::CONTROLLER_RUNTIME;
use crate::maker::KUBE_RS;
use crate::replay::ROUNDS;
use crate::replay::widget::Widget;
use crate::report::{Metric, Row, Target, row};
use crate::subject::{Measured, Work};

const LATENCY_MS: Metric = Metric { name: "latency_ms", unit: "ms" };
const PERCENTILES: [(&str, usize); 2] = [("p50", 50), ("p90", 90)];

/// Number of workers, the default of Bowline and controller-runtime: the reconciler is never busy here.
const WORKERS: usize = 1;

/// Timeout for the initial objects, and for the next update.
const PATIENCE: Duration = Duration::from_secs(60);

/// Names, updates per second, counted updates, and warm-up updates before them.
const MODES: [(&str, usize, usize, usize); 2] = [("idle", 200, 1_000, 100), ("busy", 2_000, 10_000, 1_000)];

pub(super) fn work(n: usize) -> Vec<Work> {
    let targets = [(CONTROLLER_RUNTIME.name, Target::AtMost(0.7)), (KUBE_RS, Target::AtMost(0.7))];
    MODES
        .map(|(mode, rate, samples, warmup)| {
            // The number of updates is limited, and two updates of one object may become one reconcile.
            let few = (samples + warmup) > n * ROUNDS / 2;
            let (samples, warmup) = if few { (n * ROUNDS / 2, n) } else { (samples, warmup) };
            let rows = PERCENTILES
                .map(|(percentile, _)| {
                    let variant = format!("{mode} rate={rate} {percentile} n={n}");
                    Row { key: percentile.to_owned(), ..row(&variant, LATENCY_MS, &targets) }
                })
                .into();
            let arguments =
                [("n", n), ("workers", WORKERS), ("rate", rate), ("samples", samples), ("warmup", warmup)];
            super::work(&format!("{mode} rate={rate} n={n}"), Task::Latency, &arguments, rows)
        })
        .into()
}

/// Report of a reconciler.
pub(super) struct Entered {
    clock: Clock,
    initial: AtomicUsize,
    n: usize,
    ready: Notify,
    /// Nanoseconds.
    latencies: mpsc::Sender<u64>,
    received: Mutex<mpsc::Receiver<u64>>,
}

impl Entered {
    pub(super) fn new(run: &Run) -> Self {
        let (latencies, received) = mpsc::channel(run.warmup + run.samples);
        Self {
            clock: run.clock().clone(),
            initial: AtomicUsize::new(0),
            n: run.n,
            ready: Notify::new(),
            latencies,
            received: Mutex::new(received),
        }
    }

    /// Current time: the first call of a reconciler.
    pub(super) fn now(&self) -> SystemTime {
        self.clock.system_time()
    }

    /// Reports that a reconciler was called at this time with this widget.
    pub(super) fn with(&self, now: SystemTime, widget: &Widget) {
        let sent = widget.sent();
        if sent == 0 {
            if self.initial.fetch_add(1, Ordering::Relaxed) + 1 == self.n {
                self.ready.notify_one();
            }
            return;
        }
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let latency = u64::try_from(now).unwrap_or(u64::MAX).saturating_sub(sent);
        // Events beyond the limit do not count.
        let _ = self.latencies.try_send(latency);
    }
}

/// Starts the updates and measures. The controller runs already.
///
/// # Errors
/// When the server does not start, or updates do not arrive.
#[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53")]
pub(super) async fn measure(run: &Run, entered: &Entered) -> Result<Measured, Failure> {
    let clock = run.clock();
    clock.timeout(PATIENCE, entered.ready.notified()).await.map_err(|_| "not all objects were reconciled")?;
    let mut connection = Client::new(&run.endpoint, run.scope.spawner())?.connect().await?;
    let go = format!("/go?rate={}&stamped=true", run.rate);
    connection.ask(Asked::post(go, Vec::new())).await?;
    let (mut received, mut all) = (entered.received.lock().await, Vec::with_capacity(run.samples));
    for number in 0..run.warmup + run.samples {
        let next = clock.timeout(PATIENCE, received.recv()).await;
        let latency = next.ok().flatten().ok_or("no update was reconciled for a while")?;
        if number >= run.warmup {
            all.push(latency);
        }
    }
    all.sort_unstable();
    let percentile = |percent| all[(all.len() - 1) * percent / 100] as f64 / 1e6;
    Ok(PERCENTILES.iter().map(|(name, percent)| ((*name).to_owned(), percentile(*percent))).collect())
}

//! The life of a manager: start, run, and the failures in between.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_cache::{InformerCache, NotSynced};
use bowline_clock::{Clock, Instant, Scope, Spawner, panic_message};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::Manager;
use super::builder::WebhookOptions;
use super::connection::ConnectionConfig;
use super::definitions::Definitions;
use super::error::{Failure, ManagerError};
use super::runnable::{Runnable, Service, Stage};
use super::servers::{Served, Servers};
use super::shutdown::AbortOnDrop;
use super::stages::{RunnableGroups, StartPhase};
use crate::controller::{Controller, RunControl};
use crate::leader_election::LeaderElector;
use crate::server::ServerError;
use crate::{Cluster, ClusterBuilder, Error, ReconcileHistory, Signals};

/// Interval at which to check for informers that are denied access.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Time after which unsynced informers are logged.
const SYNC_WARNING_DELAY: Duration = Duration::from_secs(10);

/// Interval at which they are logged again.
const SYNC_WARNING_INTERVAL: Duration = Duration::from_mins(1);

/// Maximum time for which everything else waits for some informers while others list.
const SYNC_TIMEOUT: Duration = Duration::from_mins(2);

/// Default name of a manager's own cluster.
pub(super) const DEFAULT_CLUSTER_NAME: &str = "manager";

/// The shared state of a manager.
pub(super) struct Inner {
    pub(super) cluster: Cluster,
    /// History that all clusters share, if they do.
    history: Option<ReconcileHistory>,
    pub(super) elector: Option<Arc<LeaderElector>>,
    pub(super) concurrency: Option<usize>,
    pub(super) webhook: WebhookOptions,
    pub(super) definitions: Definitions,
    /// Cancelled to stop the manager.
    pub(super) stop: CancellationToken,
    /// Cancelled when leader-only work may run.
    pub(super) elected: CancellationToken,
    pub(super) servers: Servers,
    pub(super) graceful_shutdown: Duration,
    pub(super) groups: RunnableGroups,
    /// Cancelled when no more work needs the lease.
    pub(super) over: CancellationToken,
    /// Whether leader-only work may still run.
    pub(super) is_leader_work_left: AtomicBool,
    /// Cancelled when the candidate has ended.
    pub(super) candidate_ended: CancellationToken,
    /// Cancelled when `run` has returned, or its future was dropped.
    pub(super) ended: CancellationToken,
    state: Mutex<State>,
    /// Dropped late: tasks end after everything else.
    pub(super) scope: Scope,
    /// Dropped last: it may contain the scope of everything.
    _kept: Vec<Kept>,
}

/// The parts of a manager.
pub(super) struct Parts {
    pub(super) spawner: Spawner,
    pub(super) scope: Scope,
    pub(super) cluster: Cluster,
    pub(super) history: Option<ReconcileHistory>,
    pub(super) elector: Option<LeaderElector>,
    pub(super) graceful_shutdown: Duration,
    pub(super) concurrency: Option<usize>,
    pub(super) webhook: WebhookOptions,
    pub(super) signals: Option<Signals>,
    pub(super) served: Served,
    pub(super) kept: Vec<Kept>,
    pub(super) definitions: Definitions,
    pub(super) stopped_hooks: Vec<StoppedHook>,
    pub(super) instead: Option<Instead>,
}

/// A value that lives as long as the manager.
pub(super) type Kept = Box<dyn Any + Send + Sync>;

/// A function that is called after the manager has stopped.
pub(super) type StoppedHook = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

/// A function that is called in place of a start.
pub(super) type Instead =
    (&'static str, Box<dyn FnOnce(Manager) -> BoxFuture<'static, Result<(), Error>> + Send>);

pub(super) struct State {
    pub(super) phase: Phase,
    /// Time of the start.
    pub(super) began: Instant,
    /// The last started phase.
    pub(super) open: Option<StartPhase>,
    /// Runnables whose phase has not started.
    pub(super) waiting: Vec<Runnable>,
    pub(super) clusters: Vec<(String, Cluster)>,
    pub(super) controllers: Vec<Managed>,
    /// The runnables of the webhook stage, including ended ones.
    pub(super) webhooks: Vec<(String, Service)>,
    pub(super) failures: Vec<Failure>,
    /// Workers that controllers could not end.
    pub(super) left_behind: Vec<String>,
    served: Served,
    stopped_hooks: Vec<StoppedHook>,
    instead: Option<Instead>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    New,
    Running,
    Stopping,
}

/// A controller, its phase, and whether it has started.
#[derive(Clone)]
pub(super) struct Managed {
    pub(super) controller: Controller,
    pub(super) phase: StartPhase,
    pub(super) begun: CancellationToken,
}

/// Runs a manager, from start to stop.
pub(super) async fn run(inner: &Arc<Inner>) -> Result<(), ManagerError> {
    inner.begin()?;
    // Dropped last.
    let _ended = inner.ended.clone().drop_guard();
    let abort = AbortOnDrop(inner);
    tokio::select! {
        biased;
        () = inner.stop.cancelled() => {}
        () = inner.start_up() => inner.stop.cancelled().await,
    }
    let ended = inner.shut_down().await;
    drop(abort);
    let hooks = std::mem::take(&mut inner.state().stopped_hooks);
    for hook in hooks {
        // The call of a hook is foreign code, too.
        if let Err(panic) = AssertUnwindSafe(async { hook().await }).catch_unwind().await {
            tracing::error!(hook = "on_stopped", panic = panic_message(&*panic), "manager hook panicked");
        }
    }
    ended
}

/// The first signal stops the manager, the second one ends the process.
async fn handle_signals(mut signals: Signals, stop: CancellationToken) {
    signals.wait().await;
    tracing::info!("signal received; stopping. A second signal ends the process at once");
    stop.cancel();
    signals.wait().await;
    tracing::error!("second signal received; the process ends at once");
    std::process::exit(1);
}

impl Inner {
    pub(super) fn new(parts: Parts) -> Arc<Self> {
        let groups = RunnableGroups::new(&parts.scope.spawner());
        let own = parts.cluster.name().map_or_else(|| DEFAULT_CLUSTER_NAME.to_owned(), ToString::to_string);
        let state = State {
            phase: Phase::New,
            began: parts.cluster.clock().now(),
            open: None,
            waiting: Vec::new(),
            clusters: vec![(own, parts.cluster.clone())],
            controllers: Vec::new(),
            webhooks: Vec::new(),
            failures: Vec::new(),
            left_behind: Vec::new(),
            served: parts.served,
            stopped_hooks: parts.stopped_hooks,
            instead: parts.instead,
        };
        // The end of the surrounding scope stops the manager.
        let stop = parts.scope.cancellation().child_token();
        if let Some(signals) = parts.signals {
            // Also before the start, and after the end.
            parts.spawner.spawn("signals", handle_signals(signals, stop.clone()));
        }
        let elector = parts.elector.map(Arc::new);
        Arc::new_cyclic(|manager| Self {
            cluster: parts.cluster,
            history: parts.history,
            servers: Servers::new(manager, elector.as_ref()),
            elector,
            concurrency: parts.concurrency,
            webhook: parts.webhook,
            definitions: parts.definitions,
            stop,
            elected: CancellationToken::new(),
            graceful_shutdown: parts.graceful_shutdown,
            groups,
            over: CancellationToken::new(),
            is_leader_work_left: AtomicBool::new(false),
            candidate_ended: CancellationToken::new(),
            ended: CancellationToken::new(),
            state: Mutex::new(state),
            scope: parts.scope,
            _kept: parts.kept,
        })
    }

    pub(super) fn add(self: &Arc<Self>, runnable: Runnable) -> Result<(), ManagerError> {
        let mut state = self.accepting(|| runnable.name().to_owned())?;
        if let Some(controller) = runnable.controller() {
            let mut clusters = state.clusters.iter();
            let cluster = clusters.find(|(_, cluster)| cluster.is_same(controller.cluster()));
            let Some((cluster, _)) = cluster else {
                return Err(ManagerError::ForeignCluster { controller: controller.name().to_owned() });
            };
            if (runnable.stage() == Stage::Elected) != controller.needs_leadership() {
                let (controller, stage) = (controller.name().to_owned(), runnable.stage());
                return Err(ManagerError::WrongStage { controller, stage });
            }
            controller.adopt()?;
            let further = (!controller.cluster().is_same(&self.cluster)).then_some(cluster.as_str());
            self.servers.check_controller(Arc::downgrade(self), &self.cluster, further, controller);
            let (phase, begun) = (runnable.phase(), runnable.service().begun().clone());
            state.controllers.push(Managed { controller: controller.clone(), phase, begun });
        }
        if runnable.stage() == Stage::Webhook {
            state.webhooks.push((runnable.name().to_owned(), runnable.service().clone()));
        }
        if state.open.is_some_and(|open| runnable.phase() <= open) {
            self.launch(runnable);
        } else {
            state.waiting.push(runnable);
        }
        Ok(())
    }

    pub(super) fn add_cluster(&self, name: String, builder: ClusterBuilder) -> Result<Cluster, ManagerError> {
        let mut state = self.accepting(|| format!("the cluster {name:?}"))?;
        if state.clusters.iter().any(|(taken, _)| *taken == name) {
            return Err(ManagerError::ClusterTaken { name });
        }
        let builder = match &self.elector {
            Some(elector) if !builder.is_fenced() => {
                let fenced = elector.fence().client(builder.kube().clone());
                builder.fenced(fenced)
            }
            _ => builder,
        };
        let builder = match &self.history {
            Some(history) => builder.history(history.clone()),
            None => builder,
        };
        // All metrics go to one registry.
        let cluster = builder.named(name.as_str()).metrics(self.cluster.metrics().clone()).build()?;
        state.clusters.push((name, cluster.clone()));
        if state.open >= Some(StartPhase::Cache) {
            cluster.start();
        }
        Ok(cluster)
    }

    /// A builder for a further cluster.
    pub(super) fn connect(&self, connection: &ConnectionConfig) -> Result<ClusterBuilder, ManagerError> {
        let metrics = self.cluster.metrics();
        let ways = connection.make(self.clock(), metrics)?;
        let builder = Cluster::builder(&self.scope.spawner(), ways.route.clone());
        let builder = builder.metrics(metrics.clone()).span(self.cluster.span().clone());
        Ok(match &self.elector {
            Some(elector) => builder.fenced(ways.fenced(elector.fence())),
            None => builder,
        })
    }

    /// Whether `run` was called.
    pub(super) fn has_begun(&self) -> bool {
        self.state().phase != Phase::New
    }

    pub(super) fn take_instead(&self) -> Option<Instead> {
        self.state().instead.take()
    }

    pub(super) fn controllers(&self) -> Vec<Controller> {
        self.state().controllers.iter().map(|managed| managed.controller.clone()).collect()
    }

    /// Waits until the workers of all controllers run.
    pub(super) async fn ready(&self) -> Result<(), ManagerError> {
        let all = async {
            self.elected.cancelled().await;
            let controllers = self.state().controllers.clone();
            for managed in controllers {
                managed.begun.cancelled().await;
                managed.controller.wait_ready().await?;
            }
            Ok(())
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(ManagerError::Stopped),
            outcome = all => outcome,
        }
    }

    pub(super) fn clock(&self) -> &Clock {
        self.cluster.clock()
    }

    pub(super) fn clusters(&self) -> Vec<Cluster> {
        self.state().clusters.iter().map(|(_, cluster)| cluster.clone()).collect()
    }

    /// Marks the manager as started.
    fn begin(&self) -> Result<(), ManagerError> {
        let mut state = self.state();
        if state.phase != Phase::New {
            return Err(ManagerError::AlreadyStarted);
        }
        // Two definitions of one name are a bug in the program, also if they are not installed.
        self.definitions.all()?;
        state.phase = Phase::Running;
        state.began = self.clock().now();
        Ok(())
    }

    /// Starts the phases in order.
    async fn start_up(self: &Arc<Self>) {
        self.open(StartPhase::Server);
        if let Err(error) = self.serve().await {
            self.fail("servers", error.into());
            return;
        }
        if let Err(error) = self.definitions.install_on(&self.cluster).await {
            self.fail("CRDs", error.into());
            return;
        }
        self.open(StartPhase::Webhook);
        self.open(StartPhase::Cache);
        for cluster in self.clusters() {
            cluster.start();
        }
        // Only controllers that watch further clusters wait for them.
        self.listed(self.cluster.cache()).await;
        self.open(StartPhase::EveryReplica);
        self.open(StartPhase::Warm);
        match &self.elector {
            Some(elector) => self.run_election(elector),
            None => self.elected.cancel(),
        }
        self.elected.cancelled().await;
        self.open(StartPhase::Elected);
    }

    /// Starts the servers.
    async fn serve(self: &Arc<Self>) -> Result<(), ServerError> {
        let served = std::mem::take(&mut self.state().served);
        let spawner = self.groups.of(Stage::Server).spawner();
        let servers = self.servers.bind(served, self.page(), self.cluster.metrics(), &spawner).await?;
        for server in servers {
            self.launch(server);
        }
        Ok(())
    }

    /// Waits until informers have listed. Does not wait for those that are denied access, nor for those that fail for
    /// long while others succeed.
    async fn listed(&self, cache: &InformerCache) {
        let (mut waited, mut warn_after) = (Duration::ZERO, SYNC_WARNING_DELAY);
        while let Err(error) = cache.wait_for_sync(CHECK_INTERVAL).await {
            let missing = error.missing();
            let is_denied = missing.iter().all(|missing| missing.is_denied);
            let others_listed = cache.stats().iter().any(|(_, stats)| stats.lists > 0);
            if is_denied || (waited >= SYNC_TIMEOUT && others_listed) {
                if !missing.is_empty() {
                    tracing::warn!(missing = %list(missing), "informers cannot list; starting without them");
                }
                return;
            }
            waited += CHECK_INTERVAL;
            if waited >= warn_after {
                tracing::warn!(missing = %list(missing), "still waiting for informers to list");
                warn_after += SYNC_WARNING_INTERVAL;
            }
        }
    }

    /// Starts everything that waits for this phase.
    fn open(self: &Arc<Self>, phase: StartPhase) {
        let mut state = self.state();
        if state.phase != Phase::Running {
            return;
        }
        state.open = Some(phase);
        let (ready, waiting) =
            std::mem::take(&mut state.waiting).into_iter().partition(|r| r.phase() <= phase);
        state.waiting = waiting;
        let ready: Vec<Runnable> = ready;
        for runnable in ready {
            self.launch(runnable);
        }
    }

    fn launch(self: &Arc<Self>, runnable: Runnable) {
        let group = self.groups.of(runnable.stage());
        let go = match runnable.stage() {
            Stage::Elected => self.elected.clone(),
            _ => fired(),
        };
        let duty = RunControl { may_reconcile: go, stop: group.stop(), abort: group.now().clone() };
        let name = runnable.name().to_owned();
        let task = name.clone();
        let inner = Arc::downgrade(self);
        let stage = runnable.stage();
        tracing::debug!(runnable = name, %stage, "starting");
        let run = async move {
            let outcome = AssertUnwindSafe(runnable.run(duty)).catch_unwind().await;
            let outcome = outcome.unwrap_or_else(|panic| {
                Err(Error::message(format!("it panicked: {}", panic_message(&*panic))))
            });
            match (outcome, inner.upgrade()) {
                (Ok(left_behind), inner) => {
                    tracing::debug!(runnable = name, "ended");
                    if let Some(inner) = inner {
                        let behind = left_behind.into_iter().map(|part| format!("{name}: {part}"));
                        inner.state().left_behind.extend(behind);
                    }
                }
                (Err(error), Some(inner)) => inner.fail(&name, error),
                (Err(error), None) => tracing::error!(runnable = name, %error, "runnable failed"),
            }
        };
        group.run(&task, run.instrument(self.cluster.span().clone()));
    }

    /// A runnable failed: logs it and stops the manager.
    pub(super) fn fail(&self, runnable: &str, error: Error) {
        tracing::error!(runnable, %error, "runnable failed; manager stops");
        self.stop_after(runnable, error);
    }

    /// Stops the manager, whose `run` then returns this error.
    pub(super) fn stop_after(&self, runnable: &str, error: Error) {
        self.state().failures.push(Failure { runnable: runnable.to_owned(), error });
        self.stop.cancel();
    }

    /// Drops values that may hold this manager itself.
    pub(super) fn drop_contents(&self) {
        let held = {
            let mut state = self.state();
            let State { waiting, controllers, webhooks, .. } = &mut *state;
            (std::mem::take(waiting), std::mem::take(controllers), std::mem::take(webhooks))
        };
        self.servers.forget();
        drop(held);
    }

    /// Whether it has joined the election.
    pub(super) fn has_joined_election(&self) -> bool {
        self.state().open >= Some(StartPhase::Warm)
    }

    /// The state, if it still accepts runnables.
    fn accepting(&self, what: impl FnOnce() -> String) -> Result<MutexGuard<'_, State>, ManagerError> {
        let state = self.state();
        if state.phase == Phase::Stopping || self.stop.is_cancelled() {
            return Err(ManagerError::Stopping { what: what() });
        }
        Ok(state)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn list(missing: &[NotSynced]) -> String {
    let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
    missing.join("; ")
}

/// A cancelled token.
fn fired() -> CancellationToken {
    let token = CancellationToken::new();
    token.cancel();
    token
}

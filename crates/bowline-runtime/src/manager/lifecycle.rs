//! From start to stop: what begins when, what ends when, and what went wrong meanwhile.

use std::any::Any;
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_cache::{InformerCache, NotSynced};
use bowline_clock::{Clock, Instant, Scope, Spawner, panic_message};
use futures::FutureExt as _;
use futures::future::join_all;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::builder::WebhookOptions;
use super::connection::Connection;
use super::error::{Failure, ManagerError};
use super::runnable::{Runnable, Stage};
use super::servers::{Served, Servers};
use super::stages::{Door, Groups};
use super::stopping::AbortOnDrop;
use crate::controller::{Controller, Duty};
use crate::leader_election::Elector;
use crate::server::ServerError;
use crate::{Cluster, ClusterBuilder, Error, Signals};

/// How often it is looked whether informers keep others waiting that are denied what they want.
const LOOK: Duration = Duration::from_millis(100);

/// After so long, what informers wait for is logged.
const PATIENCE: Duration = Duration::from_secs(10);

/// And again after so long each time.
const REMINDER: Duration = Duration::from_mins(1);

/// How long everything else waits for some informers while others list.
const SYNC_LIMIT: Duration = Duration::from_mins(2);

/// What a manager is called among its clusters.
const OWN: &str = "manager";

/// What a manager is.
pub(super) struct Inner {
    pub(super) cluster: Cluster,
    pub(super) elector: Option<Arc<Elector>>,
    pub(super) concurrency: Option<NonZeroUsize>,
    pub(super) webhook: WebhookOptions,
    /// Cancelled when all is to end.
    pub(super) stop: CancellationToken,
    /// Cancelled when what needs leadership may run.
    pub(super) elected: CancellationToken,
    pub(super) servers: Servers,
    pub(super) graceful_shutdown: Duration,
    pub(super) groups: Groups,
    /// Cancelled when nothing acts any more that may need the lease.
    pub(super) over: CancellationToken,
    /// Whether something may still act that needed it.
    pub(super) acts: AtomicBool,
    /// Cancelled when the candidate has ended.
    pub(super) left_office: CancellationToken,
    state: Mutex<State>,
    /// After the rest: tasks end when everything else is gone.
    pub(super) scope: Scope,
    /// Last: the scope that all of it is in may be among it.
    _kept: Vec<Kept>,
}

/// What a manager is made of.
pub(super) struct Parts {
    pub(super) spawner: Spawner,
    pub(super) scope: Scope,
    pub(super) cluster: Cluster,
    pub(super) elector: Option<Elector>,
    pub(super) graceful_shutdown: Duration,
    pub(super) concurrency: Option<NonZeroUsize>,
    pub(super) webhook: WebhookOptions,
    pub(super) signals: Option<Signals>,
    pub(super) served: Served,
    pub(super) kept: Vec<Kept>,
}

/// Something that lives as long as the manager.
pub(super) type Kept = Box<dyn Any + Send + Sync>;

pub(super) struct State {
    pub(super) phase: Phase,
    /// When it was started.
    pub(super) began: Instant,
    /// The last one that is open.
    pub(super) open: Option<Door>,
    /// What waits for its door.
    pub(super) waiting: Vec<Runnable>,
    pub(super) clusters: Vec<(String, Cluster)>,
    controllers: Vec<Managed>,
    pub(super) failures: Vec<Failure>,
    /// What controllers could not end.
    pub(super) left_behind: Vec<String>,
    served: Served,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    New,
    Running,
    Stopping,
}

/// A controller, and whether it has begun.
#[derive(Clone)]
struct Managed {
    controller: Controller,
    begun: CancellationToken,
}

/// Runs a manager, from start to stop.
pub(super) async fn run(inner: &Arc<Inner>) -> Result<(), ManagerError> {
    inner.begin()?;
    let abort = AbortOnDrop(inner);
    tokio::select! {
        biased;
        () = inner.stop.cancelled() => {}
        () = inner.start_up() => inner.stop.cancelled().await,
    }
    let ended = inner.shut_down().await;
    drop(abort);
    ended
}

/// The first signal stops, the second ends the process.
async fn heed(mut signals: Signals, stop: CancellationToken) {
    signals.wait().await;
    tracing::info!("a signal came: stopping; another one ends the process at once");
    stop.cancel();
    signals.wait().await;
    tracing::error!("a second signal came: the process ends at once");
    std::process::exit(1);
}

impl Inner {
    pub(super) fn new(parts: Parts) -> Arc<Self> {
        let groups = Groups::new(&parts.scope.spawner());
        let state = State {
            phase: Phase::New,
            began: parts.cluster.clock().now(),
            open: None,
            waiting: Vec::new(),
            clusters: vec![(OWN.to_owned(), parts.cluster.clone())],
            controllers: Vec::new(),
            failures: Vec::new(),
            left_behind: Vec::new(),
            served: parts.served,
        };
        // Whoever ends the scope that all of it is in stops the manager.
        let stop = parts.scope.cancellation().child_token();
        if let Some(signals) = parts.signals {
            // Before it is started, and after it has ended, too.
            parts.spawner.spawn("signals", heed(signals, stop.clone()));
        }
        let elector = parts.elector.map(Arc::new);
        Arc::new_cyclic(|manager| Self {
            cluster: parts.cluster,
            servers: Servers::new(manager.clone(), elector.as_ref()),
            elector,
            concurrency: parts.concurrency,
            webhook: parts.webhook,
            stop,
            elected: CancellationToken::new(),
            graceful_shutdown: parts.graceful_shutdown,
            groups,
            over: CancellationToken::new(),
            acts: AtomicBool::new(false),
            left_office: CancellationToken::new(),
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
            self.servers.check_controller(Some(cluster.as_str()).filter(|name| *name != OWN), controller);
            let begun = runnable.begun().clone();
            state.controllers.push(Managed { controller: controller.clone(), begun });
        }
        if state.open.is_some_and(|open| runnable.door() <= open) {
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
        // All that is counted goes to one place.
        let cluster = builder.metrics(self.cluster.metrics().clone()).build()?;
        state.clusters.push((name, cluster.clone()));
        if state.open >= Some(Door::Cache) {
            cluster.start();
        }
        Ok(cluster)
    }

    /// The beginning of a further cluster.
    pub(super) fn connect(&self, connection: Connection) -> Result<ClusterBuilder, ManagerError> {
        let metrics = self.cluster.metrics();
        let ways = connection.make(self.clock(), metrics)?;
        let builder = Cluster::builder(&self.scope.spawner(), ways.route.clone());
        let builder = builder.metrics(metrics.clone()).span(self.cluster.span().clone());
        Ok(match &self.elector {
            Some(elector) => builder.fenced(ways.fenced(elector.fence())),
            None => builder,
        })
    }

    pub(super) fn controllers(&self) -> Vec<Controller> {
        self.state().controllers.iter().map(|managed| managed.controller.clone()).collect()
    }

    /// Until all controllers reconcile.
    pub(super) async fn ready(&self) -> Result<(), ManagerError> {
        let all = async {
            self.elected.cancelled().await;
            let controllers = self.state().controllers.clone();
            for managed in controllers {
                managed.begun.cancelled().await;
                managed.controller.ready().await?;
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

    /// From here on it runs.
    fn begin(&self) -> Result<(), ManagerError> {
        let mut state = self.state();
        if state.phase != Phase::New {
            return Err(ManagerError::AlreadyStarted);
        }
        state.phase = Phase::Running;
        state.began = self.clock().now();
        Ok(())
    }

    /// Opens one door after the other.
    async fn start_up(self: &Arc<Self>) {
        self.open(Door::Server);
        if let Err(error) = self.serve().await {
            self.fail("servers", error.into());
            return;
        }
        self.open(Door::Webhook);
        self.open(Door::Cache);
        for cluster in self.clusters() {
            cluster.start();
        }
        join_all(self.clusters().iter().map(|cluster| self.listed(cluster.cache()))).await;
        self.open(Door::Other);
        self.open(Door::Warm);
        match &self.elector {
            Some(elector) => self.run_for_office(elector),
            None => self.elected.cancel(),
        }
        self.elected.cancelled().await;
        self.open(Door::Elected);
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

    /// Until informers have listed what there is. Those that are denied it wait on their own, and those that fail for long,
    /// if others do not.
    async fn listed(&self, cache: &InformerCache) {
        let (mut waited, mut patience) = (Duration::ZERO, PATIENCE);
        while let Err(error) = cache.wait_for_sync(LOOK).await {
            let missing = error.missing();
            let is_denied = missing.iter().all(|missing| missing.is_denied);
            let others_listed = cache.stats().iter().any(|(_, stats)| stats.lists > 0);
            if is_denied || (waited >= SYNC_LIMIT && others_listed) {
                if !missing.is_empty() {
                    tracing::warn!(missing = %list(missing), "some informers cannot list: everything else starts without them");
                }
                return;
            }
            waited += LOOK;
            if waited >= patience {
                tracing::warn!(missing = %list(missing), "nothing else starts before informers have listed");
                patience += REMINDER;
            }
        }
    }

    /// Lets everything in that waits for this door.
    fn open(self: &Arc<Self>, door: Door) {
        let mut state = self.state();
        if state.phase != Phase::Running {
            return;
        }
        state.open = Some(door);
        let (ready, waiting) = std::mem::take(&mut state.waiting).into_iter().partition(|r| r.door() <= door);
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
        let duty = Duty { go, stop: group.stop(), now: group.now().clone() };
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
                (Err(error), None) => tracing::error!(runnable = name, %error, "a runnable failed"),
            }
        };
        group.run(&task, run.instrument(self.cluster.span().clone()));
    }

    /// Something failed: all is to end.
    pub(super) fn fail(&self, runnable: &str, error: Error) {
        tracing::error!(runnable, %error, "a runnable failed: the manager stops");
        self.state().failures.push(Failure { runnable: runnable.to_owned(), error });
        self.stop.cancel();
    }

    /// Lets go of what may hold this manager itself.
    pub(super) fn let_go(&self) {
        let (waiting, controllers) = {
            let mut state = self.state();
            (std::mem::take(&mut state.waiting), std::mem::take(&mut state.controllers))
        };
        self.servers.forget();
        drop((waiting, controllers));
    }

    /// Whether it came as far as to stand for election.
    pub(super) fn has_stood(&self) -> bool {
        self.state().open >= Some(Door::Warm)
    }

    /// The state, if something can still be added.
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

/// A token that says yes already.
fn fired() -> CancellationToken {
    let token = CancellationToken::new();
    token.cancel();
    token
}

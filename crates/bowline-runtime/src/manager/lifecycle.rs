//! From start to stop: what begins when, what ends when, and what went wrong meanwhile.

use std::any::Any;
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_cache::InformerCache;
use bowline_clock::{Clock, Instant, Scope, panic_message};
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
use crate::controller::{Controller, Duty};
use crate::debug::{DebugPage, Leadership, ManagerReport, RunnableReport};
use crate::leader_election::Elector;
use crate::server::ServerError;
use crate::{Cluster, ClusterBuilder, Error, Signals};

/// How long what is told to end at once may take for that.
const MOMENT: Duration = Duration::from_secs(5);

/// How long a stage has to end, when those before it took all the time there was.
const LEAST: Duration = Duration::from_secs(1);

/// How long events are written at the end.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// How long the lease may take to be given up; it is tried for the renew deadline.
const RELEASE_LIMIT: Duration = Duration::from_mins(1);

/// How often it is looked whether informers that are denied keep others waiting.
const LOOK: Duration = Duration::from_millis(100);

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
    graceful_shutdown: Duration,
    groups: Groups,
    election: Scope,
    state: Mutex<State>,
    /// After the rest: tasks end when everything else is gone.
    scope: Scope,
    /// Last: the scope that all of it is in may be among it.
    _kept: Vec<Kept>,
}

/// What a manager is made of.
pub(super) struct Parts {
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

struct State {
    phase: Phase,
    /// When it was started.
    began: Instant,
    /// The last one that is open.
    open: Option<Door>,
    /// What waits for its door.
    waiting: Vec<Runnable>,
    clusters: Vec<(String, Cluster)>,
    controllers: Vec<Managed>,
    failures: Vec<Failure>,
    signals: Option<Signals>,
    served: Served,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
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

/// Aborts everything, unless the end was reached.
struct AbortOnDrop<'a>(&'a Inner);

impl Drop for AbortOnDrop<'_> {
    fn drop(&mut self) {
        self.0.state().phase = Phase::Stopping;
        self.0.stop.cancel();
        self.0.scope.abort();
    }
}

/// Runs a manager, from start to stop.
pub(super) async fn run(inner: &Arc<Inner>) -> Result<(), ManagerError> {
    let signals = inner.begin()?;
    let abort = AbortOnDrop(inner);
    if let Some(signals) = signals {
        inner.scope.spawn("signals", heed(signals, inner.stop.clone()));
    }
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
            signals: parts.signals,
            served: parts.served,
        };
        let elector = parts.elector.map(Arc::new);
        Arc::new_cyclic(|manager| Self {
            cluster: parts.cluster,
            servers: Servers::new(manager.clone(), elector.as_ref()),
            elector,
            concurrency: parts.concurrency,
            webhook: parts.webhook,
            stop: CancellationToken::new(),
            elected: CancellationToken::new(),
            graceful_shutdown: parts.graceful_shutdown,
            groups,
            election: parts.scope.scope("election"),
            state: Mutex::new(state),
            scope: parts.scope,
            _kept: parts.kept,
        })
    }

    pub(super) fn add(self: &Arc<Self>, runnable: Runnable) -> Result<(), ManagerError> {
        let mut state = self.accepting(|| runnable.name().to_owned())?;
        if let Some(controller) = runnable.controller() {
            if !state.clusters.iter().any(|(_, cluster)| cluster.is_same(controller.cluster())) {
                return Err(ManagerError::ForeignCluster { controller: controller.name().to_owned() });
            }
            self.servers.check_controller(controller);
            let begun = CancellationToken::new();
            state.controllers.push(Managed { controller: controller.clone(), begun });
        }
        if state.open.is_some_and(|open| runnable.door() <= open) {
            self.launch(&state, runnable);
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
        let cluster = builder.build()?;
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
        let builder = Cluster::builder(&self.scope.spawner(), ways.kube.clone());
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

    fn clock(&self) -> &Clock {
        self.cluster.clock()
    }

    fn clusters(&self) -> Vec<Cluster> {
        self.state().clusters.iter().map(|(_, cluster)| cluster.clone()).collect()
    }

    /// From here on it runs.
    fn begin(&self) -> Result<Option<Signals>, ManagerError> {
        let mut state = self.state();
        if state.phase != Phase::New {
            return Err(ManagerError::AlreadyStarted);
        }
        state.phase = Phase::Running;
        state.began = self.clock().now();
        Ok(state.signals.take())
    }

    /// Opens one door after the other.
    async fn start_up(self: &Arc<Self>) {
        self.open(Door::Server);
        if let Err(error) = self.serve().await {
            self.fail("servers", error.into());
            return;
        }
        self.open(Door::Webhook);
        for cluster in self.clusters() {
            cluster.start();
        }
        self.open(Door::Cache);
        join_all(self.clusters().iter().map(|cluster| self.listed(cluster.cache()))).await;
        self.open(Door::Other);
        self.open(Door::Warm);
        match &self.elector {
            Some(elector) => {
                let (inner, elector) = (self.clone(), elector.clone());
                self.election.spawn("candidate", async move { inner.stand(&elector).await });
            }
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
        let state = self.state();
        for server in servers {
            self.launch(&state, server);
        }
        Ok(())
    }

    /// The page that shows all of it, and does not keep it alive.
    pub(super) fn page(self: &Arc<Self>) -> DebugPage {
        let weak = || Arc::downgrade(self);
        let (clusters, controllers, manager) = (weak(), weak(), weak());
        DebugPage::new(self.clock())
            .clusters(move || {
                clusters.upgrade().map_or_else(Vec::new, |inner| inner.state().clusters.clone())
            })
            .controllers(move || controllers.upgrade().map_or_else(Vec::new, |inner| inner.controllers()))
            .manager(move || manager.upgrade().map_or_else(ManagerReport::default, |inner| inner.report()))
    }

    fn report(&self) -> ManagerReport {
        let state = self.state();
        let report = |name: &str, stage: Stage, state: &str| RunnableReport {
            name: name.to_owned(),
            stage: stage.to_string(),
            state: state.to_owned(),
        };
        let waiting = state.waiting.iter().map(|waiting| report(waiting.name(), waiting.stage(), "waiting"));
        let running = Stage::ALL.into_iter().flat_map(|stage| {
            self.groups.of(stage).running().into_iter().map(move |name| report(&name, stage, "running"))
        });
        let (leadership, leader, identity) = match &self.elector {
            None => (Leadership::NoElection, None, hostname()),
            Some(elector) => {
                let leadership = match (self.elected.is_cancelled(), elector.fence().is_open()) {
                    (false, _) => Leadership::Waiting,
                    (true, true) => Leadership::Leading,
                    (true, false) => Leadership::Lost,
                };
                (leadership, elector.leader(), elector.identity().to_owned())
            }
        };
        ManagerReport {
            identity,
            uptime: self.clock().now().since(state.began),
            leadership,
            leader,
            runnables: running.chain(waiting).collect(),
        }
    }

    /// Whether it has come as far as to start what it runs; if not, what it is at.
    pub(super) fn check(&self) -> Result<(), String> {
        let state = self.state();
        match (state.phase, state.open) {
            (Phase::New, _) => Err("it was not started".to_owned()),
            (Phase::Stopping, _) => Err("it stops".to_owned()),
            (Phase::Running, Some(Door::Warm | Door::Elected)) => Ok(()),
            (Phase::Running, Some(Door::Cache)) => {
                let missing = state.clusters.iter().flat_map(|(_, cluster)| cluster.cache().not_synced());
                let missing: Vec<_> = missing.map(|missing| missing.to_string()).collect();
                Err(format!("it waits for informers: {}", missing.join("; ")))
            }
            (Phase::Running, _) => Err("it starts".to_owned()),
        }
    }

    /// Until informers have listed what there is. Those that are denied it wait on their own.
    async fn listed(&self, cache: &InformerCache) {
        while let Err(error) = cache.wait_for_sync(LOOK).await {
            if error.missing().iter().all(|missing| missing.is_denied) {
                tracing::warn!(%error, "some informers may not list what they watch, or there is no such kind; everything else starts without them");
                return;
            }
        }
    }

    /// Stands for election, leads, and gives the lease up when all is over.
    async fn stand(&self, elector: &Elector) {
        let leadership = tokio::select! {
            biased;
            // Who is about to end does not begin to lead.
            () = self.stop.cancelled() => return,
            leadership = elector.acquire() => leadership,
        };
        self.elected.cancel();
        let over = self.election.cancellation();
        let lost = tokio::select! {
            biased;
            () = over.cancelled() => return leadership.release().await,
            lost = leadership.hold() => lost,
        };
        // At once: others may act already.
        self.groups.of(Stage::Elected).now().cancel();
        self.fail("leader election", lost.into());
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
            self.launch(&state, runnable);
        }
    }

    fn launch(self: &Arc<Self>, state: &State, runnable: Runnable) {
        let begun = runnable.controller().and_then(|controller| {
            let mut managed = state.controllers.iter().rev();
            managed.find(|managed| managed.controller.name() == controller.name()).map(|m| m.begun.clone())
        });
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
            let outcome =
                AssertUnwindSafe(runnable.run(duty, begun.unwrap_or_default())).catch_unwind().await;
            let outcome = outcome.unwrap_or_else(|panic| {
                Err(Error::message(format!("it panicked: {}", panic_message(&*panic))))
            });
            match (outcome, inner.upgrade()) {
                (Ok(()), _) => tracing::debug!(runnable = name, "ended"),
                (Err(error), Some(inner)) => inner.fail(&name, error),
                (Err(error), None) => tracing::error!(runnable = name, %error, "a runnable failed"),
            }
        };
        group.run(&task, run.instrument(self.cluster.span().clone()));
    }

    /// Something failed: all is to end.
    fn fail(&self, runnable: &str, error: Error) {
        tracing::error!(runnable, %error, "a runnable failed: the manager stops");
        self.state().failures.push(Failure { runnable: runnable.to_owned(), error });
        self.stop.cancel();
    }

    async fn shut_down(&self) -> Result<(), ManagerError> {
        self.state().phase = Phase::Stopping;
        let began = self.clock().now();
        let mut late = Vec::new();
        for stage in [Stage::Other, Stage::Elected] {
            late.extend(self.end(stage, began).await);
        }
        let clusters = self.clusters();
        late.extend(self.end(Stage::Cache, began).await);
        let stopped = join_all(clusters.iter().map(|cluster| cluster.cache().stop()));
        if self.clock().timeout(self.left(began).max(LEAST), stopped).await.is_err() {
            late.push("informers".to_owned());
        }
        for stage in [Stage::Webhook, Stage::Server] {
            late.extend(self.end(stage, began).await);
        }
        // Nothing acts any more: the next one may.
        let _is_logged = self.election.drain(RELEASE_LIMIT).await;
        let _is_logged =
            join_all(clusters.iter().map(|cluster| cluster.events().shutdown(FLUSH_LIMIT))).await;
        let failures = std::mem::take(&mut self.state().failures);
        if failures.is_empty() && late.is_empty() {
            tracing::info!("the manager has stopped");
            return Ok(());
        }
        Err(ManagerError::Ended { failures, left_behind: late })
    }

    async fn end(&self, stage: Stage, began: Instant) -> Vec<String> {
        let late = self.groups.of(stage).end(self.clock(), self.left(began), MOMENT).await;
        if self.graceful_shutdown.is_zero() {
            // Nobody is waited for, so that nobody is late.
            return Vec::new();
        }
        for runnable in &late {
            tracing::error!(runnable, limit = ?self.graceful_shutdown, "did not end in time, and is left behind");
        }
        late
    }

    /// How much time is left for a stage to end. Who comes late because of others has a little all the same.
    fn left(&self, began: Instant) -> Duration {
        match self.graceful_shutdown {
            Duration::MAX => Duration::MAX,
            Duration::ZERO => Duration::ZERO,
            limit => limit.saturating_sub(self.clock().now().since(began)).max(LEAST),
        }
    }

    /// The state, if something can still be added.
    fn accepting(&self, what: impl FnOnce() -> String) -> Result<MutexGuard<'_, State>, ManagerError> {
        let state = self.state();
        if state.phase == Phase::Stopping || self.stop.is_cancelled() {
            return Err(ManagerError::Stopping { what: what() });
        }
        Ok(state)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What this machine is called, for people.
fn hostname() -> String {
    hostname::get().map_or_else(|_| "unknown".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// A token that says yes already.
fn fired() -> CancellationToken {
    let token = CancellationToken::new();
    token.cancel();
    token
}

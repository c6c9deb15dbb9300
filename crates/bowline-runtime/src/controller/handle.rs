//! `Controller`: the handle of a controller, which starts, stops and reports on it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bowline_workqueue::{AddOptions, QueueStats};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::builder::ControllerBuilder;
use super::error::{ControllerError, UnsyncedSource};
use super::queue_payload::QueuePayload;
use super::run_control::RunControl;
use super::session::{Core, Session};
use super::supervisor::supervise;
use super::watch_entry::{WatchEntry, WatchState};
use crate::metrics::NameReservation;
use crate::reconcile_history::WorkerHistory;
use crate::reconciler::Task;
use crate::source::{RunningSource, SyncBlocker, SyncProgress, UnhandledChange};
use crate::trigger::Trigger;
use crate::watch::AnyWatch;
use crate::{Cause, Client, Cluster, ControllerDescription, Request, Watch, WatchDescription};

/// Default sync timeout of a controller without a manager.
const SYNC_TIMEOUT: Duration = Duration::from_mins(2);

/// Reconciles objects when they or their dependencies change.
///
/// # Guarantees
/// - No object is reconciled before all watched kinds have synced: a reconciler that reads from the cache finds everything
///   that existed when the controller started.
/// - No object is reconciled twice at the same time. Changes during a run lead to one more run afterwards.
/// - No event is lost: a run that begins after an event covers it. A run can cover any number of events, and its
///   [triggers](crate::Context::triggers) name them all, up to 16.
/// - A kind that cannot be listed, an object that cannot be decoded, and a reconcile that hangs, fails or panics affect
///   only themselves.
///
/// Until it stops, reads of its watched kinds come from the cache. Afterwards they come from the API server and the
/// informers end, unless another controller watches the kinds or [the cluster](crate::ClusterBuilder::cached) caches
/// them.
///
/// It belongs to a [`Cluster`], which has to be [started](Cluster::start) as well, and ends with that cluster's scope.
/// Dropping this handle does not stop it. A clone is the same controller.
///
/// A reconciler, handler or source that holds its own controller keeps it alive for ever, with its name and metrics.
/// Hold the [`Cluster`] instead, or a reference that can be cleared.
///
/// ```no_run
/// use std::sync::Arc;
/// use bowline_runtime::{Action, Cluster, Context, Controller, Result};
/// use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
///
/// async fn reconcile(ctx: Context, deployment: Arc<Deployment>) -> Result<Action> {
///     println!("{} because of {}", deployment.metadata.name.as_deref().unwrap_or("?"), ctx.triggers());
///     Ok(Action::done())
/// }
///
/// # async fn example(cluster: Cluster) -> Result<()> {
/// let controller = Controller::builder(&cluster).for_::<Deployment>().owns::<ReplicaSet>().build(reconcile)?;
/// cluster.start();
/// controller.run().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Controller {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) core: Arc<Core>,
    pub(super) task: Task,
    state: Mutex<State>,
    _claim: NameReservation,
}

#[derive(Default)]
struct State {
    watches: BTreeMap<u64, WatchEntry>,
    next: u64,
    run: Option<Run>,
    /// Whether it was given to a manager, which alone starts it from then on.
    is_managed: bool,
}

/// The current run, or the last one.
#[derive(Clone)]
struct Run {
    session: Arc<Session>,
    phase: watch::Receiver<Phase>,
    /// Cancelled when it may reconcile.
    go: CancellationToken,
    /// Cancelled when its watches have begun.
    began: CancellationToken,
}

/// Phase of a run.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// Its caches are not synced.
    Beginning,
    /// Its caches are synced; it waits for permission to reconcile, or is about to begin.
    Warm,
    /// It reconciles.
    Working,
    /// It has ended.
    Ended(Result<StopReport, ControllerError>),
}

/// Stops a run when it is dropped.
struct StopOnDrop<'a>(&'a Session);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Unfinished work of a stopped controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "what was left undone is worth a log line"]
pub struct StopReport {
    aborted: Vec<Request>,
    waiting: usize,
    left_behind: Vec<String>,
}

/// A watch of a controller, for its removal. Dropping this does not remove the watch.
#[derive(Debug)]
pub struct WatchHandle {
    controller: Controller,
    number: u64,
}

/// A removed watch, whose kind is declared as cached until this is dropped.
struct RemovedWatch {
    entry: WatchEntry,
    client: Client,
}

impl Drop for RemovedWatch {
    fn drop(&mut self) {
        self.entry.undeclare(&self.client);
    }
}

impl Controller {
    /// The options of a controller on a cluster.
    pub fn builder(cluster: &Cluster) -> ControllerBuilder<()> {
        ControllerBuilder::at(cluster.clone())
    }

    pub(super) fn new(
        core: Core,
        claim: NameReservation,
        task: Task,
        watches: Vec<Arc<dyn AnyWatch>>,
    ) -> Self {
        let state = Mutex::default();
        let controller = Self { inner: Arc::new(Inner { core: Arc::new(core), task, state, _claim: claim }) };
        for watch in watches {
            let entry = controller.inner.entry(watch);
            controller.inner.lock().add(entry);
        }
        controller
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.core.name
    }

    /// The part that never changes.
    pub(crate) fn core(&self) -> &Core {
        &self.inner.core
    }

    /// The cluster of the controller.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.inner.core.cluster
    }

    /// Its declarations, as data.
    pub(crate) fn describe(&self) -> ControllerDescription {
        let state = self.inner.lock();
        let watches = state.watches.values().map(|entry| WatchDescription {
            source: entry.watch.name().to_owned(),
            kind: entry.watch.kind(),
        });
        ControllerDescription {
            name: self.name().to_owned(),
            kind: self.inner.core.reconciled.clone(),
            leader_only: self.needs_leadership(),
            watches: watches.collect(),
        }
    }

    /// Whether, in a manager with leader election, it runs only while this replica leads. See
    /// [`ControllerBuilder::needs_leadership`].
    #[must_use]
    pub fn needs_leadership(&self) -> bool {
        self.inner.core.options.needs_leadership
    }

    /// Whether its caches sync while it waits for leadership. See [`ControllerBuilder::warm_up`].
    #[must_use]
    pub fn warms_up(&self) -> bool {
        self.inner.core.options.warm_up
    }

    /// Whether the process is not ready while one of its watches is not synced. See [`ControllerBuilder::required`].
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.inner.core.options.required
    }

    /// Starts it, and returns at once. Reconciles begin when all its caches have synced, see
    /// [`wait_ready`](Self::wait_ready). If that exceeds the sync timeout, it ends; the error is logged and returned by
    /// [`wait_ended`](Self::wait_ended).
    ///
    /// # Errors
    /// When it is already running, or was given to a manager, which starts it.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(&self) -> Result<(), ControllerError> {
        self.begin(None).map(|_| ())
    }

    /// Starts it, and waits until it has stopped. Dropping the future stops the controller in the background.
    ///
    /// # Errors
    /// When it is already running, was given to a manager, exceeded its sync timeout, or ended by itself.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn run(&self) -> Result<(), ControllerError> {
        let run = self.begin(None)?;
        self.attend(run).await.map(|_| ())
    }

    /// Assigns it to a manager, which alone starts it from now on.
    ///
    /// # Errors
    /// When it already belongs to one, or is running.
    pub(crate) fn adopt(&self) -> Result<(), ControllerError> {
        let mut state = self.inner.lock();
        let controller = self.name().to_owned();
        if state.is_managed {
            return Err(ControllerError::Managed { controller });
        }
        if state.is_running() {
            return Err(ControllerError::AlreadyRunning { controller });
        }
        state.is_managed = true;
        Ok(())
    }

    /// Starts it, and waits until it is stopped, by `control` or by its handle. It keeps informers at once, begins its
    /// watches when it may reconcile, and reconciles when all its caches have synced. Without a sync timeout it waits
    /// without limit. It belongs to a manager from now on.
    ///
    /// Dropping the future is as with [`run`](Self::run); `control` remains valid then.
    pub(crate) async fn run_managed(&self, control: RunControl) -> Result<StopReport, ControllerError> {
        let run = self.begin(Some(control))?;
        self.attend(run).await
    }

    /// Waits until it reconciles: all its caches have synced, and in a manager it may.
    ///
    /// # Errors
    /// The error with which it ended before; [`ControllerError::NotRunning`] when it was never started, or was stopped.
    pub async fn wait_ready(&self) -> Result<(), ControllerError> {
        let not_running = || ControllerError::NotRunning { controller: self.name().to_owned() };
        let run = self.inner.lock().run.clone().ok_or_else(not_running)?;
        match self.phase(run, |phase| !matches!(phase, Phase::Beginning | Phase::Warm)).await? {
            Phase::Ended(_) => Err(not_running()),
            Phase::Beginning | Phase::Warm | Phase::Working => Ok(()),
        }
    }

    /// Waits until it is not running. Returns at once if it was never started.
    ///
    /// # Errors
    /// When it ended by itself; a stop is not an error.
    pub async fn wait_ended(&self) -> Result<StopReport, ControllerError> {
        let run = self.inner.lock().run.clone();
        match run {
            Some(run) => self.end_of(run).await,
            None => Ok(StopReport::default()),
        }
    }

    /// Stops it, and waits for that. No more reconciles begin. Running ones see a
    /// [cancellation](crate::Context::cancellation), and have up to [`ControllerBuilder::stop_timeout`] to end. Its
    /// watches end. Returns the unfinished work. It can be started again, and then lists everything anew; a manager's
    /// controller stays stopped.
    ///
    /// A reconciler that awaits the stop of its own controller delays it until
    /// [`stop_timeout`](ControllerBuilder::stop_timeout): stop from elsewhere, or do not wait.
    ///
    /// # Errors
    /// The error with which it had ended before.
    pub async fn stop(&self) -> Result<StopReport, ControllerError> {
        self.stop_within(self.inner.core.options.stop_timeout).await
    }

    /// Like [`stop`](Self::stop), with another limit than [`ControllerBuilder::stop_timeout`]. After it, running
    /// reconciles are dropped at their next await; zero drops them at once. Of several stops, the earliest limit
    /// counts.
    ///
    /// # Errors
    /// The error with which it had ended before.
    pub async fn stop_within(&self, limit: Duration) -> Result<StopReport, ControllerError> {
        // Waits for the run that it stops, even if the controller is started again meanwhile.
        let Some(run) = self.inner.lock().run.clone() else { return Ok(StopReport::default()) };
        run.session.stop_within(limit);
        self.end_of(run).await
    }

    /// Whether it was started and has not ended since.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.inner.lock().is_running()
    }

    /// Whether it reconciles: all its caches have synced, and it does not wait for leadership.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.inner.lock().is_in(|phase| matches!(phase, Phase::Working))
    }

    /// Whether all its caches have synced, so that it reconciles, or would at once on leadership.
    #[must_use]
    pub fn is_warm(&self) -> bool {
        self.inner.lock().is_in(|phase| matches!(phase, Phase::Warm | Phase::Working))
    }

    /// The sources that have not synced yet, and why: for readiness checks and for people. Empty when all sources have
    /// synced, and while the controller is not running.
    #[must_use]
    pub fn waiting_for(&self) -> Vec<UnsyncedSource> {
        self.inner.waiting_for()
    }

    /// Changes without effect, because a predicate panicked or a handler failed for them on every attempt: ten, within
    /// about four minutes. An object stays listed until a later change of it is handled, or the controller is started
    /// again. Payloads of a source count as one object. At most 1024 are listed, and none while the controller is not
    /// running.
    ///
    /// In a [`Manager`](crate::Manager) they make the process not ready.
    #[must_use]
    pub fn unhandled_changes(&self) -> Vec<UnhandledChange> {
        let session = self.inner.lock().running_session();
        session.map_or_else(Vec::new, |session| session.retries().unhandled())
    }

    /// The running reconciles and their durations. A reconcile that never awaits is not listed.
    #[must_use]
    pub fn reconciling(&self) -> Vec<(Request, Duration)> {
        let now = self.cluster().clock().now();
        let running = self.inner.core.books.iter().filter_map(WorkerHistory::running);
        running.map(|(request, started)| (request, now.duration_since(started))).collect()
    }

    /// Numbers of waiting, delayed and processing requests. Zero while the controller is not running.
    #[must_use]
    pub fn queue_stats(&self) -> QueueStats {
        let state = self.inner.lock();
        let run = state.run.as_ref().filter(|_| state.is_running());
        run.map_or_else(QueueStats::default, |run| run.session.stats())
    }

    /// The next scheduled requests and their times, at most `count`, earliest first: retries, and requeues by the
    /// reconciler. [`queue_stats`](Self::queue_stats) has their number. Empty while the controller is not running.
    ///
    /// Times are by the current wall clock. A requeue [after a delay](crate::Action::requeue_after) does not move with
    /// that clock; a requeue [at a time](crate::Action::requeue_at) does.
    #[must_use]
    pub fn delayed(&self, count: usize) -> Vec<(Request, SystemTime)> {
        let session = self.inner.lock().running_session();
        session.map_or_else(Vec::new, |session| session.delayed(count))
    }

    /// Names of its watches, as in [triggers](crate::Trigger), in the order in which they were added.
    #[must_use]
    pub fn watches(&self) -> Vec<String> {
        self.inner.lock().watches.values().map(|entry| entry.watch.name().to_owned()).collect()
    }

    /// Reconciles an object by hand. No effect while the controller is stopped or waits for leadership, since it
    /// reconciles all objects when it starts.
    pub fn trigger(&self, request: Request) {
        if let Some(run) = &self.inner.lock().run
            && run.go.is_cancelled()
        {
            let trigger = Trigger::own(self.inner.core.by_hand.clone(), Cause::Generic);
            let request = request.seen_from(self.cluster().name());
            run.session.queue().add_with(request, AddOptions::new(QueuePayload::new(trigger)));
        }
    }

    /// Adds a watch, now or for the next start. A running controller does not wait for it before it reconciles other
    /// objects. If the controller waits for leadership, so does this watch.
    ///
    /// # Errors
    /// When the cache refuses the watch, or its cluster is another one and has no name.
    pub fn watch<D: 'static>(&self, watch: Watch<D>) -> Result<WatchHandle, ControllerError> {
        let watch = watch.erase();
        if !watch.can_name_cluster(self.cluster()) {
            let (controller, watch) = (self.name().to_owned(), watch.name().to_owned());
            return Err(ControllerError::ClusterUnnamed { controller, watch });
        }
        watch.permit(self.name(), self.cluster());
        let entry = self.inner.entry(watch);
        // One lock until the watch has joined: otherwise a concurrent start would begin it too.
        let mut state = self.inner.lock();
        let number = state.add(entry);
        let State { watches, run, .. } = &mut *state;
        if let (Some(entry), Some(run)) = (watches.get_mut(&number), run)
            && run.takes_watches()
            && let Err(error) = entry.join(&run.session, run.began.is_cancelled())
        {
            let entry = watches.remove(&number);
            drop(state);
            if let Some(mut entry) = entry {
                entry.undeclare(&self.inner.core.client);
            }
            return Err(error);
        }
        drop(state);
        Ok(WatchHandle { controller: self.clone(), number })
    }

    /// Starts it; without `control`, by hand.
    fn begin(&self, control: Option<RunControl>) -> Result<Run, ControllerError> {
        // Foreign code, which may use its own controller.
        let limiter = (self.inner.core.options.limiter)();
        let mut state = self.inner.lock();
        if state.is_managed && control.is_none() {
            return Err(ControllerError::Managed { controller: self.name().to_owned() });
        }
        if state.is_running() {
            return Err(ControllerError::AlreadyRunning { controller: self.name().to_owned() });
        }
        state.is_managed |= control.is_some();
        let sync_timeout = if control.is_some() { Duration::MAX } else { SYNC_TIMEOUT };
        let control = control.unwrap_or_else(RunControl::none);
        let session = Arc::new(Session::new(self.inner.core.clone(), limiter));
        let sync_timeout = self.inner.core.options.sync_timeout.unwrap_or(sync_timeout);
        let (sender, phase) = watch::channel(Phase::Beginning);
        let (go, began) = (control.may_reconcile.clone(), CancellationToken::new());
        let run = Run { session: session.clone(), phase, go, began };
        state.run = Some(run.clone());
        // Left over from a run that was aborted before its cleanup.
        let stale: Vec<_> = state.watches.values_mut().map(WatchEntry::reset).collect();
        state.watches.values_mut().for_each(|entry| entry.declare(&self.inner.core.client));
        drop(state);
        drop(stale);
        let spawner = self.cluster().spawner();
        let supervised = supervise(self.inner.clone(), session, control, sync_timeout, sender);
        spawner.spawn(format!("controller {}", self.name()), supervised);
        Ok(run)
    }

    /// Waits for the end of a run, and stops the run if the wait is dropped.
    async fn attend(&self, run: Run) -> Result<StopReport, ControllerError> {
        let _stop = StopOnDrop(&run.session);
        self.end_of(run.clone()).await
    }

    async fn end_of(&self, run: Run) -> Result<StopReport, ControllerError> {
        match self.phase(run, |phase| matches!(phase, Phase::Ended(_))).await? {
            Phase::Ended(stopped) => stopped,
            Phase::Beginning | Phase::Warm | Phase::Working => Ok(StopReport::default()),
        }
    }

    /// Waits until a run is in a phase.
    async fn phase(&self, mut run: Run, is_it: impl FnMut(&Phase) -> bool) -> Result<Phase, ControllerError> {
        let aborted = || ControllerError::Aborted { controller: self.name().to_owned() };
        match run.phase.wait_for(is_it).await.map(|phase| phase.clone()) {
            Ok(Phase::Ended(Err(error))) => Err(error),
            Ok(phase) => Ok(phase),
            Err(_) => Err(aborted()),
        }
    }
}

impl WatchHandle {
    /// Waits until all objects from the beginning of the watch are in the queue, or the watch is removed. If the
    /// controller waits for leadership, so does this.
    pub async fn wait_synced(&self) {
        let inner = &self.controller.inner;
        let Some(mut run) = inner.lock().run.clone() else { return };
        tokio::select! {
            biased;
            () = run.began.cancelled() => {}
            _ = run.phase.wait_for(|phase| matches!(phase, Phase::Ended(_))) => return,
        }
        let begun = inner.lock().watches.get(&self.number).and_then(|entry| entry.stand.begun());
        if let Some(begun) = begun {
            begun.synced().await;
        }
    }

    /// Removes the watch. Afterwards none of its code runs, and it adds no more requests. Its requests in the queue
    /// stay. The removal goes on if the future is dropped.
    ///
    /// An async handler or a source of the watch itself may await this: it is dropped there.
    ///
    /// # Panics
    /// Outside a tokio runtime, if the watch has begun.
    pub async fn unregister(self) {
        let (entry, session) = {
            let mut state = self.controller.inner.lock();
            (state.watches.remove(&self.number), state.running_session())
        };
        let Some(entry) = entry else { return };
        let mut removed = RemovedWatch { entry, client: self.controller.inner.core.client.clone() };
        let WatchState::Begun(begun) = removed.entry.reset() else { return };
        let removal = async move {
            begun.stop().await;
            if let Some(session) = session {
                session.retries().forget_watch(&removed.entry.origin).await;
            }
            drop(removed);
        };
        // A task of its own: the stop drops this future if it is awaited in the watch's own handler.
        let spawner = self.controller.cluster().spawner();
        let removal = spawner.spawn(format!("removal of a watch of {}", self.controller.name()), removal);
        // An error means that the cluster's scope has ended, and the watch with it.
        let _ = removal.await;
    }
}

impl StopReport {
    /// Requests that were still running at the end of the stop timeout. Their reconciles were dropped.
    #[must_use]
    pub fn aborted(&self) -> &[Request] {
        &self.aborted
    }

    /// Number of objects in the queue, ready or delayed.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Names of sources and workers that neither ended in time nor could be aborted, because they block their thread.
    /// They may still run.
    #[must_use]
    pub fn left_behind(&self) -> &[String] {
        &self.left_behind
    }

    pub(super) fn new(aborted: Vec<Request>, waiting: usize, left_behind: Vec<String>) -> Self {
        Self { aborted, waiting, left_behind }
    }
}

impl State {
    /// The number for a new watch.
    fn add(&mut self, entry: WatchEntry) -> u64 {
        let number = self.next;
        self.next += 1;
        self.watches.insert(number, entry);
        number
    }

    /// Started, and has not begun all its watches.
    fn is_beginning(&self) -> bool {
        self.is_running()
            && self.is_in(|phase| matches!(phase, Phase::Beginning))
            && self.run.as_ref().is_some_and(|run| !run.session.is_stopping())
    }

    fn is_in(&self, is_it: impl Fn(&Phase) -> bool) -> bool {
        self.run.as_ref().is_some_and(|run| is_it(&run.phase.borrow()))
    }

    fn running_session(&self) -> Option<Arc<Session>> {
        self.run.as_ref().filter(|run| run.is_alive()).map(|run| run.session.clone())
    }

    fn is_running(&self) -> bool {
        self.run.as_ref().is_some_and(Run::is_alive)
    }
}

impl Run {
    /// Its task has not ended.
    fn is_alive(&self) -> bool {
        !matches!(*self.phase.borrow(), Phase::Ended(_)) && self.phase.has_changed().is_ok()
    }

    /// A watch that is added now joins it.
    fn takes_watches(&self) -> bool {
        self.is_alive() && !self.session.is_stopping()
    }
}

impl Inner {
    /// The declared entry of a watch.
    fn entry(&self, watch: Arc<dyn AnyWatch>) -> WatchEntry {
        let origin = self.core.metrics.origin(watch.name());
        let mut entry = WatchEntry::new(watch, origin);
        entry.declare(&self.core.client);
        entry
    }

    /// Removes the declarations of its kinds, which this controller no longer needs cached.
    pub(super) fn undeclare(&self) {
        let mut state = self.lock();
        state.watches.values_mut().for_each(|entry| entry.undeclare(&self.core.client));
    }

    /// Acquires the informers of all watches; returns those to wait for.
    pub(super) fn warm_up(&self, session: &Session) -> Result<Vec<Arc<dyn SyncProgress>>, ControllerError> {
        let mut state = self.lock();
        let mut awaited = Vec::new();
        for entry in state.watches.values_mut().filter(|entry| !entry.is_late) {
            entry.warm_up(session)?;
            if let WatchState::Warm(Some(warm)) = &entry.stand {
                awaited.push(warm.clone());
            }
        }
        Ok(awaited)
    }

    /// Begins all watches; returns those to wait for.
    pub(super) fn begin(&self, session: &Session) -> Result<Vec<Arc<dyn RunningSource>>, ControllerError> {
        let mut state = self.lock();
        // Informers kept so far are released only after their users have begun: none ends in between.
        let kept = state.watches.values_mut().map(|entry| entry.begin(session)).collect::<Vec<_>>();
        if let Some(run) = &state.run {
            run.began.cancel();
        }
        let awaited = state.watches.values().filter(|entry| !entry.is_late);
        let awaited = awaited.filter_map(|entry| entry.stand.begun()).collect();
        drop(state);
        kept.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(awaited)
    }

    /// Removes the feeds of all watches; returns those that have begun, with their names.
    pub(super) fn take_begun(&self) -> Vec<(Arc<dyn AnyWatch>, Arc<dyn RunningSource>)> {
        let taken: Vec<_> =
            self.lock().watches.values_mut().map(|entry| (entry.watch.clone(), entry.reset())).collect();
        taken.into_iter().filter_map(|(watch, stand)| Some((watch, stand.begun()?))).collect()
    }

    pub(super) fn waiting_for(&self) -> Vec<UnsyncedSource> {
        let (watches, is_beginning) = {
            let state = self.lock();
            let entries = state.watches.values().map(|entry| (entry.watch.clone(), entry.stand.clone()));
            (entries.collect::<Vec<_>>(), state.is_beginning())
        };
        let waiting = watches.iter().flat_map(|(watch, stand)| {
            let obstacles = match stand {
                WatchState::Begun(begun) => begun.waiting_for(),
                WatchState::Warm(Some(warm)) => warm.waiting_for(),
                WatchState::Idle if is_beginning => vec![SyncBlocker::Begin],
                WatchState::Idle | WatchState::Warm(None) => Vec::new(),
            };
            obstacles.into_iter().map(|obstacle| UnsyncedSource::new(&**watch, &self.core.cluster, obstacle))
        });
        waiting.collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.undeclare();
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.inner.core.name)
            .field("is_running", &self.is_running())
            .finish_non_exhaustive()
    }
}

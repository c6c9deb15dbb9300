//! A controller in the hands of who built it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_cache::CacheError;
use bowline_workqueue::{Add, Stats};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::builder::ControllerBuilder;
use super::duty::Duty;
use super::error::{ControllerError, WaitingFor};
use super::pending::Pending;
use super::session::{Core, Session};
use super::supervisor::supervise;
use crate::journal::Book;
use crate::metrics::Claim;
use crate::reconciler::Task;
use crate::source::{Begun, Obstacle, Progress};
use crate::trigger::{Origin, Trigger};
use crate::watch::AnyWatch;
use crate::{Cause, Cluster, Request, Watch};

/// How long a controller that nobody manages waits until it has seen all that there is, by default.
const SYNC_TIMEOUT: Duration = Duration::from_mins(2);

/// Reconciles objects when something happens to them, or to what they depend on.
///
/// # Guarantees
/// - No object is reconciled before all that there is has been seen: a reconciler that reads from the cache finds
///   everything that was there when the controller started, of all kinds that it watches.
/// - No object is reconciled twice at the same time. What happens to it meanwhile leads to one more run afterwards.
/// - Nothing is lost between an event and a run that began after it: runs stand for any number of events, and their
///   [triggers](crate::Context::triggers) name them all, up to 16.
/// - A kind that cannot be listed, an object that cannot be read, a reconcile that hangs, fails or panics: each is in
///   nobody else's way.
///
/// It belongs to a [`Cluster`], which has to be [started](Cluster::start) as well, and ends with the scope that the cluster
/// was given. It runs until it is stopped, whoever holds this handle; a clone is the same controller.
///
/// A reconciler, handler or source that holds its own controller keeps it alive for ever, its name and its metrics included:
/// let it hold the [`Cluster`], or put the controller into a place that can be emptied.
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
    _claim: Claim,
}

#[derive(Default)]
struct State {
    watches: BTreeMap<u64, Entry>,
    next: u64,
    run: Option<Run>,
    /// Whether it was given to a manager, which alone starts it from then on.
    is_managed: bool,
}

struct Entry {
    watch: Arc<dyn AnyWatch>,
    origin: Arc<Origin>,
    stand: Stand,
    /// Whether it was added to a run that did not ask for it, and does not wait for it.
    is_late: bool,
}

/// How far a watch has come.
#[derive(Clone, Default)]
enum Stand {
    /// Nothing is done for it.
    #[default]
    Idle,
    /// The controller may not work yet: this is kept for when it may.
    Warm(Option<Arc<dyn Progress>>),
    /// It leads to requests.
    Begun(Arc<dyn Begun>),
}

/// The run that is in progress, or was last.
#[derive(Clone)]
struct Run {
    session: Arc<Session>,
    phase: watch::Receiver<Phase>,
    /// Cancelled when it may work.
    go: CancellationToken,
    /// Cancelled when its watches have begun.
    began: CancellationToken,
}

/// How far a run has come.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// It waits until it has seen what there is.
    Beginning,
    /// All that is in the cache, and it waits until it may work, or begins to.
    Warm,
    /// It reconciles.
    Working,
    /// It is over.
    Ended(Result<Stopped, ControllerError>),
}

/// Tells a run to stop when it is dropped.
struct StopOnDrop<'a>(&'a Session);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// What was left when a controller stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "what was left undone is worth a log line"]
pub struct Stopped {
    aborted: Vec<Request>,
    waiting: usize,
    left_behind: Vec<String>,
}

/// A watch of a controller, to be removed again. Dropping this leaves it where it is.
#[derive(Debug)]
pub struct WatchHandle {
    controller: Controller,
    number: u64,
}

impl Controller {
    /// A controller on a cluster, to be told what it watches.
    pub fn builder(cluster: &Cluster) -> ControllerBuilder<()> {
        ControllerBuilder::at(cluster.clone())
    }

    pub(super) fn new(core: Core, claim: Claim, task: Task, watches: Vec<Arc<dyn AnyWatch>>) -> Self {
        let state = Mutex::default();
        let controller = Self { inner: Arc::new(Inner { core: Arc::new(core), task, state, _claim: claim }) };
        for watch in watches {
            controller.inner.add(watch);
        }
        controller
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.core.name
    }

    /// What it is for its whole life.
    pub(crate) fn core(&self) -> &Core {
        &self.inner.core
    }

    /// The cluster that it belongs to.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.inner.core.cluster
    }

    /// Whether, in a manager with leader election, it runs only while this replica leads. See
    /// [`ControllerBuilder::needs_leadership`].
    #[must_use]
    pub fn needs_leadership(&self) -> bool {
        self.inner.core.options.needs_leadership
    }

    /// Whether what it watches is in the cache while it waits for leadership. See [`ControllerBuilder::warm_up`].
    #[must_use]
    pub fn warms_up(&self) -> bool {
        self.inner.core.options.warm_up
    }

    /// Starts it, and returns at once. It begins to reconcile when it has seen all that there is, see
    /// [`ready`](Self::ready); should that take too long, it ends, and the error is logged and returned by
    /// [`ended`](Self::ended).
    ///
    /// # Errors
    /// When it runs already, or was given to a manager: that starts it, when it may work.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(&self) -> Result<(), ControllerError> {
        self.begin(None).map(|_| ())
    }

    /// Starts it, and waits until it is stopped. When the future is dropped before, the controller is told to stop, and
    /// nobody waits for it.
    ///
    /// # Errors
    /// When it runs already, was given to a manager, could not begin in time, or ended by itself.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn run(&self) -> Result<(), ControllerError> {
        let run = self.begin(None)?;
        self.attend(run).await.map(|_| ())
    }

    /// It belongs to a manager from now on: nobody else starts it.
    ///
    /// # Errors
    /// When it belongs to one already, or runs.
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

    /// Starts it, and waits until it is stopped: by what its duty says, or by anybody who has the handle. It keeps informers at
    /// once, begins to watch when it may work, and to reconcile when it has seen all that there is. If no limit was set, it
    /// waits as long as it takes. It belongs to a manager from now on.
    ///
    /// Dropping the future is as with [`run`](Self::run); what its duty says still holds then.
    pub(crate) async fn run_managed(&self, duty: Duty) -> Result<Stopped, ControllerError> {
        let run = self.begin(Some(duty))?;
        self.attend(run).await
    }

    /// Waits until it reconciles: it has seen all that there is, and, in a manager, may.
    ///
    /// # Errors
    /// When it ended before, and why; [`ControllerError::NotRunning`] when it was never started, or was stopped.
    pub async fn ready(&self) -> Result<(), ControllerError> {
        let not_running = || ControllerError::NotRunning { controller: self.name().to_owned() };
        let run = self.inner.lock().run.clone().ok_or_else(not_running)?;
        match self.phase(run, |phase| !matches!(phase, Phase::Beginning | Phase::Warm)).await? {
            Phase::Ended(_) => Err(not_running()),
            Phase::Beginning | Phase::Warm | Phase::Working => Ok(()),
        }
    }

    /// Waits until it does not run any more. One that was never started does not.
    ///
    /// # Errors
    /// When it was not stopped but ended by itself, and why.
    pub async fn ended(&self) -> Result<Stopped, ControllerError> {
        let run = self.inner.lock().run.clone();
        match run {
            Some(run) => self.end_of(run).await,
            None => Ok(Stopped::default()),
        }
    }

    /// Stops it: no more reconciles begin, those that run are [told](crate::Context::cancellation), and waited for up to
    /// [`ControllerBuilder::stop_timeout`]; its watches end. Tells what was left. It can be started again, and sees all
    /// that there is anew then; one that was given to a manager stays stopped.
    ///
    /// A reconciler that waits for its own controller to stop is what the stop waits for, until
    /// [`stop_timeout`](ControllerBuilder::stop_timeout): tell it from elsewhere, or do not wait.
    ///
    /// # Errors
    /// When it had ended by itself before, and why.
    pub async fn stop(&self) -> Result<Stopped, ControllerError> {
        self.stop_within(self.inner.core.options.stop_timeout).await
    }

    /// Stops it, and waits for reconciles that run no longer than this, whatever
    /// [`ControllerBuilder::stop_timeout`] says: then they are dropped where they wait, at once if it is zero. When it stops
    /// already, what is over first counts. Otherwise as [`stop`](Self::stop).
    ///
    /// # Errors
    /// When it had ended by itself before, and why.
    pub async fn stop_within(&self, limit: Duration) -> Result<Stopped, ControllerError> {
        // The same run is told and waited for, whoever starts it anew meanwhile.
        let Some(run) = self.inner.lock().run.clone() else { return Ok(Stopped::default()) };
        run.session.stop_within(limit);
        self.end_of(run).await
    }

    /// Whether it was started and has not ended since.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.inner.lock().is_running()
    }

    /// Whether it reconciles: it has seen all that there is, and need not wait for leadership.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.inner.lock().is_in(|phase| matches!(phase, Phase::Working))
    }

    /// Whether it reconciles, or would at once if this replica led: all that it watches is in the cache.
    #[must_use]
    pub fn is_warm(&self) -> bool {
        self.inner.lock().is_in(|phase| matches!(phase, Phase::Warm | Phase::Working))
    }

    /// What it has not seen yet, and why: for a readiness check, and for people who wonder why nothing happens. Nothing if it
    /// has seen all that there is, or does not run.
    #[must_use]
    pub fn waiting_for(&self) -> Vec<WaitingFor> {
        self.inner.waiting_for()
    }

    /// What is reconciled now, and for how long. What is done at once does not show.
    #[must_use]
    pub fn reconciling(&self) -> Vec<(Request, Duration)> {
        let now = self.cluster().clock().now();
        let running = self.inner.core.books.iter().filter_map(Book::running);
        running.map(|(request, started)| (request, now.since(started))).collect()
    }

    /// What waits to be reconciled, now or at its time, and what is with a worker. Nothing while it does not run.
    #[must_use]
    pub fn queue_stats(&self) -> Stats {
        let state = self.inner.lock();
        let run = state.run.as_ref().filter(|_| state.is_running());
        run.map_or_else(Stats::default, |run| run.session.queue().stats())
    }

    /// The names of what it watches, as [triggers](crate::Trigger) have them, in the order in which they were added.
    #[must_use]
    pub fn watches(&self) -> Vec<String> {
        self.inner.lock().watches.values().map(|entry| entry.watch.name().to_owned()).collect()
    }

    /// Reconciles an object because somebody says so. Does nothing while the controller is stopped, or waits for leadership:
    /// it sees all that there is when it begins.
    pub fn trigger(&self, request: Request) {
        if let Some(run) = &self.inner.lock().run
            && run.go.is_cancelled()
        {
            let trigger = Trigger::own(self.inner.core.by_hand.clone(), Cause::Signalled);
            run.session.queue().add_with(request, Add::new(Pending::new(trigger)));
        }
    }

    /// Watches something else from now on, or from the next start on. A controller that runs does not wait for it before it
    /// reconciles other objects; if it waits for leadership, this watch does, too.
    ///
    /// # Errors
    /// When the cache cannot have such a watch.
    pub fn watch<D: 'static>(&self, watch: Watch<D>) -> Result<WatchHandle, ControllerError> {
        let number = self.inner.add(watch.erase());
        let mut state = self.inner.lock();
        let State { watches, run, .. } = &mut *state;
        if let (Some(entry), Some(run)) = (watches.get_mut(&number), run)
            && !run.session.is_stopping()
            && let Err(error) = entry.join(run)
        {
            let entry = watches.remove(&number);
            drop(state);
            entry.inspect(|entry| entry.watch.undeclare(&self.inner.core.client));
            return Err(error);
        }
        drop(state);
        Ok(WatchHandle { controller: self.clone(), number })
    }

    /// Starts it; without a duty, by hand.
    fn begin(&self, duty: Option<Duty>) -> Result<Run, ControllerError> {
        // Somebody else's code, which may well look at its controller.
        let limiter = (self.inner.core.options.limiter)();
        let mut state = self.inner.lock();
        if state.is_managed && duty.is_none() {
            return Err(ControllerError::Managed { controller: self.name().to_owned() });
        }
        if state.is_running() {
            return Err(ControllerError::AlreadyRunning { controller: self.name().to_owned() });
        }
        state.is_managed |= duty.is_some();
        let sync_timeout = if duty.is_some() { Duration::MAX } else { SYNC_TIMEOUT };
        let duty = duty.unwrap_or_else(Duty::none);
        let session = Arc::new(Session::new(self.inner.core.clone(), limiter));
        let sync_timeout = self.inner.core.options.sync_timeout.unwrap_or(sync_timeout);
        let (sender, phase) = watch::channel(Phase::Beginning);
        let (go, began) = (duty.go.clone(), CancellationToken::new());
        let run = Run { session: session.clone(), phase, go, began };
        state.run = Some(run.clone());
        // Of a run that was aborted before it could clear up.
        let stale: Vec<_> = state.watches.values_mut().map(Entry::reset).collect();
        drop(state);
        drop(stale);
        let spawner = self.cluster().spawner();
        let supervised = supervise(self.inner.clone(), session, duty, sync_timeout, sender);
        spawner.spawn(format!("controller {}", self.name()), supervised);
        Ok(run)
    }

    /// Waits for the end of a run, which is told to stop when nobody waits any more.
    async fn attend(&self, run: Run) -> Result<Stopped, ControllerError> {
        let _stop = StopOnDrop(&run.session);
        self.end_of(run.clone()).await
    }

    async fn end_of(&self, run: Run) -> Result<Stopped, ControllerError> {
        match self.phase(run, |phase| matches!(phase, Phase::Ended(_))).await? {
            Phase::Ended(stopped) => stopped,
            Phase::Beginning | Phase::Warm | Phase::Working => Ok(Stopped::default()),
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
    /// Waits until all that was there when the watch began is with the queue, or the watch is removed. If the controller
    /// waits for leadership, so does this.
    pub async fn synced(&self) {
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

    /// Removes the watch: when this is over, nothing runs for it any more, and nothing more comes from it. What it led to and
    /// waits in the queue stays there.
    pub async fn remove(self) {
        let entry = self.controller.inner.lock().watches.remove(&self.number);
        let Some(Entry { watch, stand, .. }) = entry else { return };
        if let Stand::Begun(begun) = stand {
            begun.stop().await;
        }
        watch.undeclare(&self.controller.inner.core.client);
    }
}

impl Stopped {
    /// What was still being reconciled when the time was over, and was dropped where it waited.
    #[must_use]
    pub fn aborted(&self) -> &[Request] {
        &self.aborted
    }

    /// How many objects waited to be reconciled, now or at their time.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Names of sources and workers that neither ended in time nor could be aborted, because they block their thread. They
    /// may still run.
    #[must_use]
    pub fn left_behind(&self) -> &[String] {
        &self.left_behind
    }

    pub(super) fn new(aborted: Vec<Request>, waiting: usize, left_behind: Vec<String>) -> Self {
        Self { aborted, waiting, left_behind }
    }
}

impl State {
    /// It was started, and has not come to all of its watches.
    fn is_beginning(&self) -> bool {
        self.is_running()
            && self.is_in(|phase| matches!(phase, Phase::Beginning))
            && self.run.as_ref().is_some_and(|run| !run.session.is_stopping())
    }

    fn is_in(&self, is_it: impl Fn(&Phase) -> bool) -> bool {
        self.run.as_ref().is_some_and(|run| is_it(&run.phase.borrow()))
    }

    fn is_running(&self) -> bool {
        self.run.as_ref().is_some_and(|run| {
            !matches!(*run.phase.borrow(), Phase::Ended(_)) && run.phase.has_changed().is_ok()
        })
    }
}

impl Entry {
    /// Comes to a run that is in progress.
    fn join(&mut self, run: &Run) -> Result<(), ControllerError> {
        self.is_late = true;
        if run.began.is_cancelled() { self.begin(&run.session).map(drop) } else { self.warm_up(&run.session) }
    }

    fn warm_up(&mut self, session: &Session) -> Result<(), ControllerError> {
        let warm = self.watch.warm(session).map_err(|error| self.refused(session, error))?;
        self.stand = Stand::Warm(warm);
        Ok(())
    }

    /// Begins; gives what was kept for that.
    fn begin(&mut self, session: &Session) -> Result<Stand, ControllerError> {
        let begun = self.watch.begin(&self.origin, session);
        let begun = begun.map_err(|error| self.refused(session, error))?;
        Ok(std::mem::replace(&mut self.stand, Stand::Begun(begun)))
    }

    fn refused(&self, session: &Session, error: CacheError) -> ControllerError {
        ControllerError::Watch {
            controller: session.name().to_owned(),
            watch: self.watch.name().to_owned(),
            error: Box::new(error),
        }
    }

    /// As it is before a run; gives what there was, to be dropped where nobody waits.
    fn reset(&mut self) -> Stand {
        self.is_late = false;
        std::mem::take(&mut self.stand)
    }
}

impl Stand {
    fn begun(&self) -> Option<Arc<dyn Begun>> {
        match self {
            Self::Begun(begun) => Some(begun.clone()),
            Self::Idle | Self::Warm(_) => None,
        }
    }
}

impl Inner {
    fn add(&self, watch: Arc<dyn AnyWatch>) -> u64 {
        watch.declare(&self.core.client);
        let origin = self.core.metrics.origin(watch.name());
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.watches.insert(number, Entry { watch, origin, stand: Stand::Idle, is_late: false });
        number
    }

    /// Gets hold of what all watches will need; gives what is to be waited for.
    pub(super) fn warm_up(&self, session: &Session) -> Result<Vec<Arc<dyn Progress>>, ControllerError> {
        let mut state = self.lock();
        let mut awaited = Vec::new();
        for entry in state.watches.values_mut().filter(|entry| !entry.is_late) {
            entry.warm_up(session)?;
            if let Stand::Warm(Some(warm)) = &entry.stand {
                awaited.push(warm.clone());
            }
        }
        Ok(awaited)
    }

    /// Begins all watches; gives what is to be waited for.
    pub(super) fn begin(&self, session: &Session) -> Result<Vec<Arc<dyn Begun>>, ControllerError> {
        let mut state = self.lock();
        // What was kept is given up when what needs it has begun: no informer ends in between.
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

    /// Takes all away that watches have; gives those that have begun, with their names.
    pub(super) fn take_begun(&self) -> Vec<(Arc<dyn AnyWatch>, Arc<dyn Begun>)> {
        let taken: Vec<_> =
            self.lock().watches.values_mut().map(|entry| (entry.watch.clone(), entry.reset())).collect();
        taken.into_iter().filter_map(|(watch, stand)| Some((watch, stand.begun()?))).collect()
    }

    pub(super) fn waiting_for(&self) -> Vec<WaitingFor> {
        let (watches, is_beginning) = {
            let state = self.lock();
            let entries = state.watches.values().map(|entry| (entry.watch.clone(), entry.stand.clone()));
            (entries.collect::<Vec<_>>(), state.is_beginning())
        };
        let waiting = watches.iter().flat_map(|(watch, stand)| {
            let obstacles = match stand {
                Stand::Begun(begun) => begun.waiting_for(),
                Stand::Warm(Some(warm)) => warm.waiting_for(),
                Stand::Idle if is_beginning => vec![Obstacle::Begin],
                Stand::Idle | Stand::Warm(None) => Vec::new(),
            };
            obstacles.into_iter().map(|obstacle| WaitingFor::new(watch.name(), obstacle))
        });
        waiting.collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

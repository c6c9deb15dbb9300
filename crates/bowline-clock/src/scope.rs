//! Task scopes: every task belongs to a scope and ends no later than it.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::task::panic_message;
use crate::{Clock, Task};

/// Number of child scopes at which dropped ones are first removed.
const SWEEP_AT: usize = 16;

/// Owns tasks. When it is dropped, they are aborted, and so are those of the scopes below it.
///
/// - [`spawn`](Scope::spawn) starts a task; one that panics ends alone: the panic is logged and counted, the scope
///   and its other tasks continue.
/// - [`drain`](Scope::drain) cancels the tasks' [`CancellationToken`], waits, and aborts the remaining ones after a
///   limit: a graceful stop.
/// - [`abort`](Scope::abort) drops them at their current `await`: a crash.
///
/// A closed scope (drained or aborted) accepts no more tasks; a [`Task`] spawned later returns
/// [`TaskError::Aborted`](crate::TaskError::Aborted). Tasks that spawn others hold a [`Spawner`], which does not
/// keep the scope alive.
pub struct Scope {
    spawner: Spawner,
}

/// Spawns into a [`Scope`] without owning it.
#[derive(Clone)]
pub struct Spawner {
    node: Arc<Node>,
}

struct Node {
    name: String,
    clock: Clock,
    parent: Option<Arc<Node>>,
    cancellation: CancellationToken,
    /// Tasks of this scope and of all below it.
    live: watch::Sender<usize>,
    /// Panicked tasks of this scope and of all below it.
    panicked: AtomicUsize,
    tasks: Mutex<Tasks>,
}

#[derive(Default)]
struct Tasks {
    closed: bool,
    aborted: bool,
    next: u64,
    running: BTreeMap<u64, Running>,
    children: Vec<Weak<Node>>,
    /// Number of children at which dropped ones are next removed.
    sweep_at: usize,
}

struct Running {
    name: Arc<str>,
    /// `None` for a moment while the task is being spawned, and for blocking work, which cannot be aborted.
    abort: Option<AbortHandle>,
}

impl Scope {
    pub(crate) fn root(clock: Clock, name: String) -> Self {
        Self { spawner: Spawner { node: Node::new(clock, name, None, CancellationToken::new()) } }
    }

    /// A handle to spawn into this scope.
    #[must_use]
    pub fn spawner(&self) -> Spawner {
        self.spawner.clone()
    }

    /// Starts a task, see [`Spawner::spawn`].
    pub fn spawn<F>(&self, name: impl AsRef<str>, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawner.spawn(name, future)
    }

    /// Runs work that blocks or computes for long, see [`Spawner::spawn_blocking`].
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        name: impl AsRef<str>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Task<T> {
        self.spawner.spawn_blocking(name, work)
    }

    /// A scope below this one, see [`Spawner::scope`].
    #[must_use]
    pub fn scope(&self, name: impl AsRef<str>) -> Scope {
        self.spawner.scope(name)
    }

    /// Cancelled when this scope, or one above it, is drained or aborted.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.spawner.cancellation()
    }

    /// Number of running tasks, in this scope and below.
    #[must_use]
    pub fn running(&self) -> usize {
        *self.spawner.node.live.borrow()
    }

    /// Number of panicked tasks, in this scope and below.
    #[must_use]
    pub fn panicked(&self) -> usize {
        self.spawner.node.panicked.load(Ordering::Relaxed)
    }

    /// Stops gracefully: accepts no more tasks, cancels the token, waits up to `limit` for all tasks to end, then
    /// aborts the rest and returns their names.
    ///
    /// A task that never reaches an `await`, or blocking work, cannot be aborted: its name is returned and it keeps
    /// running.
    pub async fn drain(&self, limit: Duration) -> Drained {
        let node = &self.spawner.node;
        node.close(false);
        let left = match node.clock.timeout(limit, node.wait_until_idle()).await {
            Ok(()) => Vec::new(),
            Err(_) => node.names(),
        };
        node.close(true);
        Drained { left }
    }

    /// Aborts every task of this scope and of those below at its current `await`, and accepts no more: a crash. The
    /// [token](Scope::cancellation) is cancelled after that, so that no task that waits for it goes on.
    ///
    /// Returns at once; each task is dropped later on its thread, see [`wait_ended`](Scope::wait_ended).
    pub fn abort(&self) {
        self.spawner.node.close(true);
    }

    /// Waits until all tasks of this scope and of those below have ended.
    pub async fn wait_ended(&self) {
        self.spawner.node.wait_until_idle().await;
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        self.abort();
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("name", &self.spawner.node.name)
            .field("running", &self.spawner.node.names())
            .finish()
    }
}

impl Spawner {
    /// Starts a task on the current tokio runtime.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn spawn<F>(&self, name: impl AsRef<str>, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let Some(place) = Place::enter(&self.node, name.as_ref()) else {
            return Task::over(self.node.full_name(name.as_ref()), None);
        };
        let (name, id) = (place.name.clone(), place.id);
        #[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
        let handle = tokio::spawn(Tracked { future: Box::pin(future), place });
        self.node.spawned(id, handle.abort_handle());
        Task::running(name, handle)
    }

    /// Runs work that blocks or computes for long on its own thread, or inline in a simulation, which has one thread.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        name: impl AsRef<str>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Task<T> {
        let Some(place) = Place::enter(&self.node, name.as_ref()) else {
            return Task::over(self.node.full_name(name.as_ref()), None);
        };
        let name = place.name.clone();
        let work = move || catch_unwind(AssertUnwindSafe(work)).map_err(|panic| place.panicked(&*panic));
        if self.node.clock.is_simulated() {
            return Task::over(name, Some(work()));
        }
        #[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
        let handle = tokio::task::spawn_blocking(work);
        Task::running(name, handle)
    }

    /// A scope below this one: aborted and drained with it, or alone before.
    #[must_use]
    pub fn scope(&self, name: impl AsRef<str>) -> Scope {
        let child = Node::new(
            self.node.clock.clone(),
            self.node.full_name(name.as_ref()).to_string(),
            Some(self.node.clone()),
            self.node.cancellation.child_token(),
        );
        let mut tasks = self.node.lock();
        if tasks.children.len() >= tasks.sweep_at {
            tasks.children.retain(|child| child.strong_count() > 0);
            tasks.sweep_at = (2 * tasks.children.len()).max(SWEEP_AT);
        }
        tasks.children.push(Arc::downgrade(&child));
        let (closed, aborted) = (tasks.closed, tasks.aborted);
        drop(tasks);
        if closed {
            child.close(aborted);
        }
        Scope { spawner: Spawner { node: child } }
    }

    /// Cancelled when the scope, or one above it, is drained or aborted.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.node.cancellation.clone()
    }

    /// The clock that the scope was made from.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.node.clock
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").field("scope", &self.node.name).finish()
    }
}

/// The result of [`Scope::drain`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "tasks that had to be aborted are worth a log line"]
pub struct Drained {
    left: Vec<String>,
}

impl Drained {
    /// Whether every task ended by itself.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.left.is_empty()
    }

    /// The full names of the tasks that did not end in time and were aborted.
    #[must_use]
    pub fn left(&self) -> &[String] {
        &self.left
    }
}

impl Node {
    fn new(
        clock: Clock,
        name: String,
        parent: Option<Arc<Node>>,
        cancellation: CancellationToken,
    ) -> Arc<Self> {
        let (live, _) = watch::channel(0);
        Arc::new(Self {
            name,
            clock,
            parent,
            cancellation,
            live,
            panicked: AtomicUsize::new(0),
            tasks: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Tasks> {
        // Nothing that can panic runs under this lock.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn full_name(&self, task: &str) -> Arc<str> {
        format!("{}/{task}", self.name).into()
    }

    /// Stores the handle of a task, unless the task has ended or its scope was aborted meanwhile.
    fn spawned(&self, id: u64, abort: AbortHandle) {
        let mut tasks = self.lock();
        if tasks.aborted {
            abort.abort();
        } else if let Some(running) = tasks.running.get_mut(&id) {
            running.abort = Some(abort);
        }
    }

    fn close(&self, abort: bool) {
        // Before the tokens: a task that waits for its token would otherwise be woken, and could act although it is aborted.
        self.close_all(abort);
        self.cancellation.cancel();
    }

    /// Closes this scope and all below it, and aborts their tasks if wanted. The tokens are left alone.
    fn close_all(&self, abort: bool) {
        let mut tasks = self.lock();
        tasks.closed = true;
        tasks.aborted |= abort;
        let aborts: Vec<_> = tasks.running.values().filter_map(|task| task.abort.clone()).collect();
        let children: Vec<_> = tasks.children.iter().filter_map(Weak::upgrade).collect();
        drop(tasks);
        if abort {
            aborts.iter().for_each(AbortHandle::abort);
        }
        for child in children {
            child.close_all(abort);
        }
    }

    async fn wait_until_idle(&self) {
        let mut live = self.live.subscribe();
        // The sender is in `self`, so it cannot be gone.
        let _ = live.wait_for(|live| *live == 0).await;
    }

    fn names(&self) -> Vec<String> {
        let tasks = self.lock();
        let mut names: Vec<_> = tasks.running.values().map(|task| task.name.to_string()).collect();
        let children: Vec<_> = tasks.children.iter().filter_map(Weak::upgrade).collect();
        drop(tasks);
        names.extend(children.iter().flat_map(|child| child.names()));
        names
    }

    /// This scope and those above it.
    fn lineage(&self) -> impl Iterator<Item = &Node> {
        std::iter::successors(Some(self), |node| node.parent.as_deref())
    }
}

/// A task's registration in its scope, removed on drop.
struct Place {
    node: Arc<Node>,
    id: u64,
    name: Arc<str>,
}

impl Place {
    /// `None` if the scope is closed.
    fn enter(node: &Arc<Node>, name: &str) -> Option<Self> {
        let name = node.full_name(name);
        let mut tasks = node.lock();
        if tasks.closed {
            return None;
        }
        let id = tasks.next;
        tasks.next += 1;
        tasks.running.insert(id, Running { name: name.clone(), abort: None });
        for scope in node.lineage() {
            scope.live.send_modify(|live| *live += 1);
        }
        drop(tasks);
        Some(Self { node: node.clone(), id, name })
    }

    fn panicked(&self, panic: &(dyn std::any::Any + Send)) -> String {
        let message = panic_message(panic).to_owned();
        tracing::error!(task = %self.name, panic = %message, "task panicked");
        for scope in self.node.lineage() {
            scope.panicked.fetch_add(1, Ordering::Relaxed);
        }
        message
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.node.lock().running.remove(&self.id);
        for scope in self.node.lineage() {
            scope.live.send_modify(|live| *live -= 1);
        }
    }
}

/// A task's future and its registration, dropped in this order: when the scope is empty, the future is gone.
struct Tracked<F> {
    future: Pin<Box<F>>,
    place: Place,
}

impl<F: Future> Future for Tracked<F> {
    type Output = Result<F::Output, String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match catch_unwind(AssertUnwindSafe(|| this.future.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(this.place.panicked(&*panic))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Simulation;

    #[test]
    fn a_task_whose_scope_is_aborted_while_it_is_being_spawned_is_aborted_too() {
        Simulation::new(0).run(|clock| async move {
            let scope = clock.scope("scope");
            let node = &scope.spawner.node;
            // The same as `spawn`, with an abort in the middle.
            let place = Place::enter(node, "task").expect("the scope is open");
            let id = place.id;
            scope.abort();
            let tracked = Tracked { future: Box::pin(std::future::pending::<()>()), place };
            #[expect(clippy::disallowed_methods, reason = "this is what `spawn` does")]
            let handle = tokio::spawn(tracked);
            node.spawned(id, handle.abort_handle());
            assert!(clock.timeout(Duration::from_secs(1), scope.wait_ended()).await.is_ok());
        });
    }

    #[test]
    fn dropped_scopes_are_removed_from_their_parent() {
        Simulation::new(0).run(|clock| async move {
            let scope = clock.scope("scope");
            for _ in 0..1000 {
                let _child = scope.scope("child");
            }
            assert!(scope.spawner.node.lock().children.len() <= SWEEP_AT);
        });
    }
}

//! One handler or subscription of an informer. Owns wake-ups, the end, and sync; [`backlog`] owns the waiting events.

pub(crate) mod backlog;

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_clock::{Instant, Progress, panic_message, poll_cooperate};
use kube::Resource;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::event::Event;
use crate::handler::EventHandler;
use backlog::{Backlog, Batch, Taken};

/// Callbacks in a row before the task yields.
const CALLBACKS_PER_TURN: usize = 64;

/// One handler and its waiting events.
pub(crate) struct Listener<K> {
    name: String,
    backlog: Mutex<Backlog<K>>,
    filled: Notify,
    /// Cancelled when the handler has received the initial list.
    synced: CancellationToken,
    /// Cancelled when no more events are delivered.
    closed: CancellationToken,
    /// Cancelled when its task and its last callback have ended.
    ended: CancellationToken,
    panics: AtomicU64,
    resync: Option<Resync>,
}

/// Time of the next resync of a handler.
struct Resync {
    period: Duration,
    next: Mutex<Instant>,
}

impl<K> Listener<K> {
    /// Ends the delivery of events.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }
}

impl<K: Resource + Send + Sync + 'static> Listener<K> {
    pub(crate) fn new(name: String, resync: Option<Duration>, now: Instant) -> Self {
        Self {
            name,
            backlog: Mutex::default(),
            filled: Notify::new(),
            synced: CancellationToken::new(),
            closed: CancellationToken::new(),
            ended: CancellationToken::new(),
            panics: AtomicU64::new(0),
            resync: resync.map(|period| Resync { period, next: Mutex::new(now + period) }),
        }
    }

    pub(crate) fn push(&self, batch: &Batch<K>) {
        self.backlog().push(batch);
        self.filled.notify_one();
    }

    pub(crate) fn push_initial_end(&self) {
        self.backlog().push_initial_end();
        self.filled.notify_one();
    }

    pub(crate) fn waiting(&self) -> usize {
        self.backlog().len()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Time of the next resync.
    pub(crate) fn next_resync(&self) -> Option<Instant> {
        self.resync.as_ref().map(|resync| *lock(&resync.next))
    }

    /// Whether a resync is due. If so, schedules the next one.
    pub(crate) fn is_resync_due(&self, now: Instant) -> bool {
        let Some(resync) = &self.resync else { return false };
        let mut next = lock(&resync.next);
        let is_due = *next <= now;
        if is_due {
            *next = now + resync.period;
        }
        is_due
    }

    /// Calls the handler until the listener is closed. Dropping the future also counts as the end.
    pub(crate) fn run(self: Arc<Self>, handler: impl EventHandler<K>) -> impl Future<Output = ()> + Send {
        let ended = self.ended.clone().drop_guard();
        async move {
            self.call(handler).await;
            drop(ended);
        }
    }

    async fn call(&self, mut handler: impl EventHandler<K>) {
        while let Some(taken) = self.take().await {
            let events: &[Event<K>] = match &taken {
                Taken::Shared(events) => events,
                Taken::Own(events) => events,
                Taken::InitialEnd => {
                    self.synced.cancel();
                    continue;
                }
            };
            for turn in events.chunks(CALLBACKS_PER_TURN) {
                for event in turn {
                    if self.is_closed() {
                        return;
                    }
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| handler.handle(event))) {
                        self.panicked(event, &*panic);
                    }
                }
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| handler.flush())) {
                    self.panicked(&turn[turn.len() - 1], &*panic);
                }
                cooperate().await;
            }
        }
    }

    fn panicked(&self, event: &Event<K>, panic: &(dyn Any + Send)) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        let text = panic_message(panic);
        tracing::error!(
            handler = self.name,
            ?event,
            panic = text,
            "handler panicked; continuing with the next event"
        );
    }

    /// Waits for the next events; `None` when the listener is closed.
    async fn take(&self) -> Option<Taken<K>> {
        loop {
            if self.is_closed() {
                return None;
            }
            if let Some(taken) = self.backlog().take() {
                return Some(taken);
            }
            tokio::select! {
                biased;
                () = self.closed.cancelled() => return None,
                () = self.filled.notified() => {}
            }
        }
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog<K>> {
        lock(&self.backlog)
    }
}

/// Yields if this task has used up its budget.
async fn cooperate() {
    poll_fn(|cx| poll_cooperate(cx).map(Progress::made_progress)).await;
}

/// No code under these locks panics, and their data would be consistent anyway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A registered handler of an informer. Dropping this does not remove the handler.
pub struct Registration {
    listener: Arc<dyn Registered>,
}

impl Registration {
    pub(crate) fn new<K: Resource + Send + Sync + 'static>(listener: Arc<Listener<K>>) -> Self {
        Self { listener }
    }

    /// Whether the handler has received all objects that existed when it was added or when the informer first synced,
    /// whichever was later. The informer itself syncs earlier: its indexer is complete before handlers see the objects.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.listener.synced().is_cancelled()
    }

    /// Waits until [`has_synced`](Self::has_synced) or until the handler is removed. Returns whether it has synced.
    pub async fn wait_synced(&self) -> bool {
        tokio::select! {
            biased;
            () = self.listener.synced().cancelled() => true,
            () = self.listener.closed().cancelled() => self.has_synced(),
        }
    }

    /// The number of events that wait for the handler.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.listener.waiting()
    }

    /// The number of panics of the handler.
    #[must_use]
    pub fn panics(&self) -> u64 {
        self.listener.panics()
    }

    /// Removes the handler and waits for its last callback. Waiting events are dropped.
    pub async fn unregister(&self) {
        self.listener.closed().cancel();
        self.listener.ended().cancelled().await;
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("has_synced", &self.has_synced())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

/// A listener without its object type.
trait Registered: Send + Sync {
    fn synced(&self) -> &CancellationToken;
    fn closed(&self) -> &CancellationToken;
    fn ended(&self) -> &CancellationToken;
    fn waiting(&self) -> usize;
    fn panics(&self) -> u64;
}

impl<K: Resource + Send + Sync + 'static> Registered for Listener<K> {
    fn synced(&self) -> &CancellationToken {
        &self.synced
    }

    fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    fn waiting(&self) -> usize {
        self.waiting()
    }

    fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}

/// The events of an informer, one by one. A slow reader delays no other: waiting events are merged per object, as for a
/// handler. Dropping it ends the subscription.
#[must_use = "events are dropped with the subscription"]
pub struct Subscription<K> {
    listener: Arc<Listener<K>>,
    taken: Option<Taken<K>>,
    given: usize,
}

impl<K: Resource + Send + Sync + 'static> Subscription<K> {
    pub(crate) fn new(listener: Arc<Listener<K>>) -> Self {
        // It has no callback that a removal waits for.
        listener.ended.cancel();
        Self { listener, taken: None, given: 0 }
    }

    /// Waits for the next event; `None` when the informer is gone. Cancel-safe: no event is lost if the future is
    /// dropped.
    ///
    /// It uses tokio's cooperative budget: a loop over many available events, such as a long initial list, yields to
    /// other tasks in between. A future that is polled only once may therefore be pending although there is an event,
    /// unless it runs in tokio's `unconstrained`.
    pub async fn next(&mut self) -> Option<Event<K>> {
        loop {
            let events: &[Event<K>] = match &self.taken {
                Some(Taken::Shared(events)) => events,
                Some(Taken::Own(events)) => events,
                Some(Taken::InitialEnd) | None => &[],
            };
            if let Some(event) = events.get(self.given) {
                cooperate().await;
                self.given += 1;
                return Some(event.clone());
            }
            self.taken = None;
            self.given = 0;
            self.taken = Some(self.listener.take().await?);
            if let Some(Taken::InitialEnd) = &self.taken {
                self.listener.synced.cancel();
            }
        }
    }

    /// The registration of this subscription: its sync state and backlog, for a component that does not read the events.
    #[must_use]
    pub fn registration(&self) -> Registration {
        Registration::new(self.listener.clone())
    }

    /// Whether all initial objects were returned, and [`next`](Self::next) was called again.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.listener.synced.is_cancelled()
    }

    /// The number of waiting events.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.listener.waiting()
    }
}

impl<K> Drop for Subscription<K> {
    fn drop(&mut self) {
        self.listener.closed.cancel();
    }
}

impl<K> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("has_synced", &self.listener.synced.is_cancelled())
            .finish_non_exhaustive()
    }
}

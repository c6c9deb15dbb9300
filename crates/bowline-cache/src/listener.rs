//! One handler of an informer and what waits for it: the task that calls a handler, or the subscription that somebody reads
//! from. Owns waking, ending and being in sync; [`backlog`] owns what waits.

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
use crate::handler::Handler;
use backlog::{Backlog, Batch, Taken};

/// After so many callbacks others on the thread get a turn.
const CALLBACKS_PER_TURN: usize = 64;

/// One handler, and what waits for it.
pub(crate) struct Listener<K> {
    name: String,
    backlog: Mutex<Backlog<K>>,
    filled: Notify,
    /// When the handler was told all that was there at the beginning.
    synced: CancellationToken,
    /// When it is told nothing any more.
    closed: CancellationToken,
    /// When its task has ended, and its last callback with it.
    ended: CancellationToken,
    panics: AtomicU64,
    resync: Option<Resync>,
}

/// When a handler is told again of everything.
struct Resync {
    period: Duration,
    next: Mutex<Instant>,
}

impl<K> Listener<K> {
    /// Nothing is told any more.
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

    /// When it wants to be told again of everything.
    pub(crate) fn next_resync(&self) -> Option<Instant> {
        self.resync.as_ref().map(|resync| *lock(&resync.next))
    }

    /// Whether it is time to tell it again of everything; if so, the next time is one period later.
    pub(crate) fn is_resync_due(&self, now: Instant) -> bool {
        let Some(resync) = &self.resync else { return false };
        let mut next = lock(&resync.next);
        let is_due = *next <= now;
        if is_due {
            *next = now + resync.period;
        }
        is_due
    }

    /// Calls the handler until the listener is closed. It has ended when the future is dropped, polled or not.
    pub(crate) fn run(self: Arc<Self>, handler: impl Handler<K>) -> impl Future<Output = ()> + Send {
        let ended = self.ended.clone().drop_guard();
        async move {
            self.call(handler).await;
            drop(ended);
        }
    }

    async fn call(&self, mut handler: impl Handler<K>) {
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
                poll_fn(|cx| poll_cooperate(cx).map(Progress::made)).await;
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
            "a handler panicked; it goes on with the next event"
        );
    }

    /// What is to be done next; nothing when the listener is closed.
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

/// Nothing panics under these locks; if something did, what they hold would be whole all the same.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handler that was added to an informer. Dropping this leaves the handler where it is.
pub struct Registration {
    listener: Arc<dyn Registered>,
}

impl Registration {
    pub(crate) fn new<K: Resource + Send + Sync + 'static>(listener: Arc<Listener<K>>) -> Self {
        Self { listener }
    }

    /// Whether the handler has been told all that was there when it came, or when the informer first was in sync,
    /// whichever was later. Not the same as the informer's being in sync: its indexer has everything before any handler
    /// has seen it.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.listener.synced().is_cancelled()
    }

    /// Waits until [`has_synced`](Self::has_synced), or the handler is removed. Whether it is in sync.
    pub async fn synced(&self) -> bool {
        tokio::select! {
            biased;
            () = self.listener.synced().cancelled() => true,
            () = self.listener.closed().cancelled() => self.has_synced(),
        }
    }

    /// How many events wait for the handler.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.listener.waiting()
    }

    /// How often the handler panicked.
    #[must_use]
    pub fn panics(&self) -> u64 {
        self.listener.panics()
    }

    /// Removes the handler: it is told nothing any more, and when this is over, it does not run any more either. What
    /// waited for it is dropped.
    pub async fn remove(self) {
        self.close().await;
    }

    /// The same as [`remove`](Self::remove), for who shares this with others.
    pub async fn close(&self) {
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

/// A listener, whatever its objects are.
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

/// The events of an informer, for somebody who asks for them one by one. Nobody waits for who does not ask: what waits is
/// coalesced per object when it becomes much, as for a handler. Dropping it ends it.
#[must_use = "events are dropped with the subscription"]
pub struct Subscription<K> {
    listener: Arc<Listener<K>>,
    taken: Option<Taken<K>>,
    given: usize,
}

impl<K: Resource + Send + Sync + 'static> Subscription<K> {
    pub(crate) fn new(listener: Arc<Listener<K>>) -> Self {
        Self { listener, taken: None, given: 0 }
    }

    /// The next event; none when the informer is gone. Nothing is lost when this is dropped before it is done.
    pub async fn next(&mut self) -> Option<Event<K>> {
        loop {
            let events: &[Event<K>] = match &self.taken {
                Some(Taken::Shared(events)) => events,
                Some(Taken::Own(events)) => events,
                Some(Taken::InitialEnd) | None => &[],
            };
            if let Some(event) = events.get(self.given) {
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

    /// Whether all that was there at the beginning has been given out, and asked beyond.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.listener.synced.is_cancelled()
    }

    /// How many events wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.listener.waiting()
    }
}

impl<K> Drop for Subscription<K> {
    fn drop(&mut self) {
        self.listener.closed.cancel();
        self.listener.ended.cancel();
    }
}

impl<K> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("has_synced", &self.listener.synced.is_cancelled())
            .finish_non_exhaustive()
    }
}

//! One informer: an indexer and any number of handlers, fed by list and watch. Owns the tasks, and the guarantee that
//! the indexer and all handlers see the same changes in the same order.

mod applying;
mod builder;
mod listening;
mod observed;
mod status;
mod sync;

use std::fmt;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_clock::{Clock, Scope, Spawner, panic_message};
use futures::FutureExt as _;
use kube::Resource;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::delta_fifo::{Delta, DeltaFifo};
use crate::handler::EventHandler;
use crate::indexer::Indexer;
use crate::key::object_key;
use crate::kind::Kind;
use crate::list_watch::{ListWatch, ListWatchError};
use crate::listener::backlog::Batch;
use crate::listener::{Listener, Registration, Subscription};
use crate::lister::Lister;
use crate::metrics::Metrics;
use crate::namespaces::Namespaces;
use crate::reflector::{Decoded, Decoder, ErrorHook, Health, Reflector, ReflectorPhase, Settings};
use crate::undecodable::UndecodableObject;
use applying::{Applying, is_same};
use bowline_machinery::ObjectKey;
pub use builder::{InformerBuilder, InformerError};
pub use status::{InformerStatus, ReflectorStatus};
pub use sync::{NotSynced, SyncError};

/// Maximum time that a stop waits for running tasks.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause before a reflector restarts after a panic, its own or one while its changes were applied.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// Caches the selected objects of a kind and notifies handlers of changes.
///
/// # Guarantees
/// - After any lost event or connection, the [`Indexer`] and every handler end in the server's state.
/// - The indexer is updated before handlers run: a handler that reads it finds the change, or something newer.
/// - A handler that keeps up sees every change, in the server's order. For a handler that falls behind, the changes of
///   one object are merged into one event. A deletion is always delivered, and an object that replaced a deleted one of
///   the same name is delivered as a deletion and an addition.
/// - A missed deletion is delivered when a relist reveals it, with the last known state
///   ([`Deleted::final_state_unknown`](crate::Deleted)).
/// - An object that cannot be decoded is [set aside](Self::undecodable), and no other object is affected. If an earlier
///   version could be decoded, that one stays until the object is deleted or can be decoded again.
///
/// A clone is the same informer. When the last clone is dropped, the informer and its handlers end.
pub struct SharedInformer<K> {
    shared: Arc<Shared<K>>,
    tasks: Arc<Tasks>,
}

/// State that the tasks of an informer share.
struct Shared<K> {
    kind: Kind<K>,
    clock: Clock,
    indexer: Arc<Indexer<K>>,
    fifo: Arc<DeltaFifo<K>>,
    decoder: Arc<Decoder<K>>,
    parts: Vec<Part>,
    listeners: Mutex<Listeners<K>>,
    /// Held by the task that applies deltas.
    applying: tokio::sync::Mutex<()>,
    /// Signals that the time of the next resync may have changed.
    resyncs: Notify,
    /// Cancelled when all parts were listed once.
    synced: CancellationToken,
    /// Signals that deltas were applied.
    changed: Notify,
    events: AtomicU64,
    metrics: Arc<dyn Metrics>,
    on_error: Option<ErrorHook>,
    settings: Settings,
    resync: Option<Duration>,
}

/// One source of an informer, with a reflector of its own.
struct Part {
    namespaces: Namespaces,
    list_watch: Arc<dyn ListWatch>,
    health: Arc<Health>,
    /// Held by the task that runs the reflector.
    reflecting: tokio::sync::Mutex<()>,
    /// Signals that the part must be listed again.
    again: Notify,
    /// Version up to which the indexer has this part, as a number, readable without the lock. Zero until the first
    /// list, and if versions are not numbers.
    reached: AtomicU64,
}

/// The handlers, and the versions that they have seen. While this lock is held, no deltas are applied.
struct Listeners<K> {
    all: Vec<Arc<Listener<K>>>,
    /// For each part, the version up to which it is applied; `None` until the first list.
    versions: Vec<Option<String>>,
    named: u64,
}

/// The version up to which a batch of deltas brings one part.
enum Seen<K> {
    Nothing,
    Version(String),
    /// This object's version.
    Object(Arc<K>),
}

impl<K> Seen<K> {
    fn is_whole(&self) -> bool {
        !matches!(self, Self::Nothing)
    }
}

/// The scopes of an informer's tasks.
struct Tasks {
    spawner: Spawner,
    handlers: Scope,
    running: Mutex<Option<Scope>>,
}

/// Options of one handler.
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until a handler is added with them"]
pub struct HandlerOptions {
    name: Option<String>,
    resync: Option<Resync>,
}

#[derive(Clone, Copy, Debug)]
enum Resync {
    Never,
    Every(Duration),
}

impl HandlerOptions {
    /// Name in logs. Default: a number.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Delivers every object again after each period, as an update from a version to the same one. Minimum: 1 second.
    /// Default: the informer's period, which is none unless set.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(Resync::Every(period.max(Duration::from_secs(1))));
        self
    }

    /// Disables resync for this handler. Default: the informer's period.
    pub fn no_resync(mut self) -> Self {
        self.resync = Some(Resync::Never);
        self
    }
}

/// Counters of an informer, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct InformerStats {
    /// Objects in the indexer.
    pub items: usize,
    /// Successful lists.
    pub lists: u64,
    /// Successful lists after the first one.
    pub relists: u64,
    /// Opened watches.
    pub watches: u64,
    /// Failed lists and watches.
    pub failures: u64,
    /// Events for handlers. An event counts once, for any number of handlers.
    pub events: u64,
    /// Objects that are set aside now.
    pub undecodable: usize,
    /// Number of times that an object was set aside.
    pub undecodable_total: u64,
    /// Longest time since a part last received data from the server. A server sends bookmarks about once a minute.
    pub staleness: Option<Duration>,
    /// Registered handlers.
    pub handlers: usize,
    /// Waiting events of the handler that is furthest behind.
    pub backlog: usize,
}

impl<K: Resource + Send + Sync + 'static> SharedInformer<K> {
    /// Builds an informer of a kind. Its tasks are spawned below `spawner`'s scope.
    pub fn builder(spawner: &Spawner, kind: Kind<K>) -> InformerBuilder<K> {
        InformerBuilder::new(spawner.clone(), kind)
    }

    /// The objects and their indexes. May be filled before the start: objects that turn out to be gone are then
    /// delivered as deletions. Fill it before handlers are added, so that they also see the objects that did not
    /// change.
    #[must_use]
    pub fn indexer(&self) -> &Arc<Indexer<K>> {
        &self.shared.indexer
    }

    /// A read-only view of the objects.
    #[must_use]
    pub fn lister(&self) -> Lister<K> {
        Lister::new(self.shared.indexer.clone())
    }

    /// The kind of the objects.
    #[must_use]
    pub fn kind(&self) -> &Kind<K> {
        &self.shared.kind
    }

    /// Adds a handler. Existing objects are delivered to it first, as additions with `in_initial_list`.
    ///
    /// A handler that reads objects should hold a [`lister`](Self::lister). A handler that holds the informer keeps it
    /// alive after all other users have dropped it.
    pub fn add_handler(&self, handler: impl EventHandler<K>) -> Registration {
        self.add_handler_with(handler, HandlerOptions::default())
    }

    /// Adds a handler with options.
    pub fn add_handler_with(&self, handler: impl EventHandler<K>, options: HandlerOptions) -> Registration {
        let listener = self.shared.listen(options);
        self.tasks.handlers.spawn("handler", listener.clone().run(handler));
        Registration::new(listener)
    }

    /// Subscribes to the events: an alternative to a handler, for code that asks for them one by one.
    pub fn subscribe(&self) -> Subscription<K> {
        self.subscribe_with(HandlerOptions::default())
    }

    /// Subscribes with options.
    pub fn subscribe_with(&self, options: HandlerOptions) -> Subscription<K> {
        Subscription::new(self.shared.listen(options))
    }

    /// Starts the informer if it does not run. After a stop it resumes, and handlers receive the changes since then.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    pub fn start(&self) {
        let mut running = lock(&self.tasks.running);
        if running.is_some() {
            return;
        }
        let scope = self.tasks.spawner.scope("informer");
        let cancelled = scope.cancellation();
        for number in 0..self.shared.parts.len() {
            let (shared, spawner, cancelled) = (self.shared.clone(), scope.spawner(), cancelled.clone());
            let namespaces = &shared.parts[number].namespaces;
            let span = tracing::info_span!("reflector", kind = %shared.kind, %namespaces);
            let reflecting = async move {
                tokio::select! {
                    biased;
                    () = cancelled.cancelled() => {}
                    () = shared.reflect(number, spawner) => {}
                }
            };
            scope.spawn("reflector", reflecting.instrument(span));
        }
        let shared = self.shared.clone();
        scope.spawn("applying", async move {
            tokio::select! {
                biased;
                () = cancelled.cancelled() => {}
                () = shared.run() => {}
            }
        });
        *running = Some(scope);
    }

    /// Stops the informer if it runs. Objects and handlers stay. Handlers receive the events that wait, then nothing
    /// until the next start.
    pub async fn stop(&self) {
        let running = lock(&self.tasks.running).take();
        if let Some(scope) = running {
            let drained = scope.drain(STOP_TIMEOUT).await;
            if !drained.is_clean() {
                tracing::warn!(kind = %self.shared.kind, left = ?drained.left(), "informer did not stop in time");
            }
            if !self.is_running() {
                for part in &self.shared.parts {
                    part.health.enter(ReflectorPhase::Stopped);
                }
            }
        }
    }

    /// Whether the informer was started and not stopped since.
    #[must_use]
    pub fn is_running(&self) -> bool {
        lock(&self.tasks.running).is_some()
    }

    /// Whether all objects were listed once, so that the indexer is complete. Stays true.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.shared.synced.is_cancelled()
    }

    /// Waits until the informer [has synced](Self::has_synced), without a limit.
    pub async fn wait_synced(&self) {
        self.shared.synced.cancelled().await;
    }

    /// Waits until the informer has synced, at most for `limit`.
    ///
    /// # Errors
    /// [`SyncError`] after the limit. It names what has not synced, and why.
    pub async fn wait_for_sync(&self, limit: Duration) -> Result<(), SyncError> {
        match self.shared.clock.timeout(limit, self.wait_synced()).await {
            Ok(()) => Ok(()),
            Err(_) => match self.not_synced() {
                missing if missing.is_empty() => Ok(()),
                missing => Err(SyncError::new(limit, missing)),
            },
        }
    }

    /// The parts that have not synced, and why; empty if all have.
    #[must_use]
    pub fn not_synced(&self) -> Vec<NotSynced> {
        self.shared.not_synced()
    }

    /// Collection version up to which the objects match the server; the oldest one of several parts. `None` until the
    /// informer has synced.
    #[must_use]
    pub fn last_sync_resource_version(&self) -> Option<String> {
        let listeners = self.shared.lock();
        let versions = listeners.versions.iter().cloned().collect::<Option<Vec<_>>>()?;
        versions.into_iter().min_by_key(|version| version.parse::<u64>().unwrap_or(u64::MAX))
    }

    /// Waits until a delta that came after this call is applied, even if the future is polled later. The delta may
    /// change no object, for example a bookmark.
    ///
    /// To wait for a state without missing a change: call this, then check the state, then await.
    pub fn changed(&self) -> impl Future<Output = ()> + Send + '_ {
        self.shared.changed.notified()
    }

    /// Whether the indexer has this object as it was at a version of the collection, or newer. False if versions are
    /// not numbers.
    #[must_use]
    pub fn has_reached(&self, key: &ObjectKey, version: u64) -> bool {
        let Some(part) = self.shared.parts.iter().position(|part| part.namespaces.contains(key)) else {
            return false;
        };
        let reached = self.shared.parts[part].reached.load(Ordering::Acquire);
        reached > 0 && reached >= version
    }

    /// Decodes one object as this informer keeps it: transformed, and without the fields that it drops. An object that
    /// cannot be decoded is set aside, and the result is `None`.
    #[must_use]
    #[doc(hidden)]
    pub fn decode(&self, object: &[u8], scratch: &mut Vec<u8>) -> Option<Arc<K>> {
        match self.shared.decoder.read(object, scratch) {
            Decoded::Known(object) | Decoded::New(object) => Some(object),
            Decoded::Unreadable(_) => None,
        }
    }

    /// Marks this version of a cached object as undecodable, because more of it turned out to be so. This happens with
    /// representations that decode lazily: the problem shows only when a reader needs more of the object than the
    /// informer does. It is counted and logged once per version.
    #[doc(hidden)]
    pub fn mark_undecodable(&self, object: &K, problem: &str) {
        let key = object_key(object);
        if self.shared.indexer.get(&key).is_some_and(|known| is_same(&*known, object)) {
            let version = object.meta().resource_version.as_deref().unwrap_or_default();
            self.shared.decoder.mark_undecodable(&key, version, problem);
        }
    }

    /// The objects that cannot be decoded now. If there are very many, some are only counted in [`InformerStats`].
    #[must_use]
    pub fn undecodable(&self) -> Vec<UndecodableObject> {
        self.shared.decoder.undecodable.all()
    }

    /// Counters of the informer.
    #[must_use]
    pub fn stats(&self) -> InformerStats {
        self.shared.stats()
    }
}

impl<K: Resource + Send + Sync + 'static> Shared<K> {
    fn reflector(&self, number: usize, spawner: Spawner) -> Reflector<K> {
        let part = &self.parts[number];
        Reflector::new(
            number,
            part.namespaces.clone(),
            part.list_watch.clone(),
            self.decoder.clone(),
            self.fifo.clone(),
            part.health.clone(),
            self.metrics.clone(),
            self.on_error.clone(),
            self.settings,
            spawner,
        )
        .since(self.lock().versions[number].clone())
    }

    /// Runs the reflector of one part. Foreign code in it (metrics, hooks) may panic; the part is then listed again.
    async fn reflect(&self, number: usize, spawner: Spawner) {
        // A stopped reflector may not have ended yet, and must not push old changes after a new list.
        let _alone = self.parts[number].reflecting.lock().await;
        loop {
            let reflector = AssertUnwindSafe(self.reflector(number, spawner.clone()).run()).catch_unwind();
            let again = self.parts[number].again.notified();
            let panic = tokio::select! {
                biased;
                () = again => {
                    // A delta that could not be applied may fail again: pause first.
                    self.clock.sleep(PANIC_PAUSE).await;
                    continue;
                }
                Err(panic) = reflector => panic,
            };
            let panic = panic_message(&*panic);
            tracing::error!(kind = %self.kind, panic, "reflector panicked; restarting");
            self.parts[number]
                .health
                .failed(&ListWatchError::Malformed(format!("the reflector panicked: {panic}")));
            self.clock.sleep(PANIC_PAUSE).await;
        }
    }

    /// Applies deltas as they arrive, and starts resyncs when they are due.
    async fn run(&self) {
        // A stopped task may not have ended yet.
        let _alone = self.applying.lock().await;
        let mut is_sync_waiting = false;
        loop {
            let next_resync = self.lock().all.iter().filter_map(|listener| listener.next_resync()).min();
            let resync = async {
                match next_resync {
                    Some(time) if !is_sync_waiting => self.clock.sleep_until(time).await,
                    _ => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = resync => {
                    is_sync_waiting = true;
                    self.fifo.push_sync();
                }
                () = self.resyncs.notified() => {}
                deltas = self.fifo.pop() => {
                    let applied = catch_unwind(AssertUnwindSafe(|| self.apply(deltas)));
                    let is_sync = applied.unwrap_or_else(|panic| {
                        // The whole batch was discarded. List again, so that no change is missed.
                        let panic = panic_message(&*panic);
                        tracing::error!(kind = %self.kind, panic, "changes could not be applied; listing again");
                        self.parts.iter().for_each(|part| part.again.notify_one());
                        true
                    });
                    if is_sync {
                        is_sync_waiting = false;
                    }
                }
            }
        }
    }

    /// Applies a batch of deltas. Returns whether a resync was in it.
    fn apply(&self, deltas: Vec<Delta<K>>) -> bool {
        let mut listeners = self.lock();
        let mut seen: Vec<Seen<K>> = self.parts.iter().map(|_| Seen::Nothing).collect();
        let mut is_sync = false;
        let batch: Batch<K> = self.indexer.write(|next| {
            let mut applying = Applying { next, events: Vec::with_capacity(deltas.len()) };
            for delta in deltas {
                match delta {
                    Delta::Applied(object) => {
                        let is_news = applying.applied(&object);
                        self.note(&mut seen, &listeners.versions, object, is_news);
                    }
                    Delta::Deleted(object) => {
                        let is_news = applying.deleted(&object);
                        self.note(&mut seen, &listeners.versions, object, is_news);
                    }
                    Delta::Gone(object) => applying.gone(&object),
                    Delta::Replaced(replaced) => {
                        let part = replaced.part;
                        let is_first = listeners.versions[part].is_none() && !seen[part].is_whole();
                        seen[part] = Seen::Version(replaced.resource_version.clone());
                        applying.replaced(replaced, &self.parts[part].namespaces, is_first);
                    }
                    Delta::Bookmark { part, resource_version } => {
                        seen[part] = Seen::Version(resource_version);
                    }
                    Delta::Sync => is_sync = true,
                }
            }
            applying.events.into()
        });
        for ((version, seen), part) in listeners.versions.iter_mut().zip(seen).zip(&self.parts) {
            match seen {
                Seen::Nothing => continue,
                Seen::Version(seen) => *version = Some(seen),
                // Objects arrive only after a complete list.
                Seen::Object(object) => version.clone_from(&object.meta().resource_version),
            }
            part.reached.store(number(version.as_deref()).unwrap_or(0), Ordering::Release);
        }
        self.events.fetch_add(batch.len() as u64, Ordering::Relaxed);
        listeners.all.retain(|listener| !listener.is_closed());
        if !batch.is_empty() {
            for listener in &listeners.all {
                listener.push(&batch);
            }
        }
        if !self.synced.is_cancelled() && listeners.versions.iter().all(Option::is_some) {
            for listener in &listeners.all {
                listener.push_initial_end();
            }
            self.synced.cancel();
        }
        if is_sync {
            self.resync(&listeners);
        }
        drop(listeners);
        self.changed.notify_waiters();
        is_sync
    }

    /// Notes the last seen object of a part. An object without news may be older than that, and counts only if it is
    /// newer.
    fn note(&self, seen: &mut [Seen<K>], versions: &[Option<String>], object: Arc<K>, is_news: bool) {
        let part = if let [_] = seen {
            Some(0)
        } else {
            let key = object_key(&*object);
            self.parts.iter().position(|part| part.namespaces.contains(&key))
        };
        let Some(part) = part else { return };
        if !is_news {
            let before = match &seen[part] {
                Seen::Nothing => versions[part].as_deref(),
                Seen::Version(version) => Some(version.as_str()),
                Seen::Object(object) => object.meta().resource_version.as_deref(),
            };
            let version = number(object.meta().resource_version.as_deref());
            if version.is_none() || before.is_none() || version <= number(before) {
                return;
            }
        }
        seen[part] = Seen::Object(object);
    }

    fn lock(&self) -> MutexGuard<'_, Listeners<K>> {
        lock(&self.listeners)
    }
}

/// A resource version as a number, if it is one.
fn number(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends all waits for events and for the sync of a handler.
impl<K> Drop for Shared<K> {
    fn drop(&mut self) {
        for listener in &lock(&self.listeners).all {
            listener.close();
        }
    }
}

impl<K> Clone for SharedInformer<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), tasks: self.tasks.clone() }
    }
}

impl<K> fmt::Debug for SharedInformer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformer")
            .field("kind", &format_args!("{}", self.shared.kind))
            .field("has_synced", &self.shared.synced.is_cancelled())
            .finish_non_exhaustive()
    }
}

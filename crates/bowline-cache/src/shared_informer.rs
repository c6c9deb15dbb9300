//! One watch, an indexer and any number of handlers. Owns that the indexer and all handlers see the same changes in the same
//! order, and the tasks that make it so.

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
use crate::handler::Handler;
use crate::indexer::Indexer;
use crate::key::object_key;
use crate::kind::Kind;
use crate::list_watch::{ListWatch, ListWatchError};
use crate::listener::backlog::Batch;
use crate::listener::{Listener, Registration, Subscription};
use crate::lister::Lister;
use crate::metrics::Metrics;
use crate::namespaces::Namespaces;
use crate::reflector::{Decoded, Decoder, ErrorHook, Health, Phase, Reflector, Settings};
use crate::set_aside::SetAside;
use applying::{Applying, is_same};
use bowline_machinery::ObjectKey;
pub use builder::{InformerBuilder, InformerError};
pub use status::{InformerStatus, PartStatus};
pub use sync::{NotSynced, SyncError};

/// How long a stop waits for what is running.
const STOPPING: Duration = Duration::from_secs(30);

/// How long a reflector rests after a panic, its own or one in what it told.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// Keeps all objects of a kind, as far as it is told to, and tells handlers what happens to them.
///
/// # Guarantees
/// - Whatever is lost between the server and here, once it is quiet, the [`Indexer`] has what the server has, and every
///   handler was told enough to have it too.
/// - Handlers are told after the indexer has the change: who looks finds it, or something newer.
/// - A handler that keeps up is told of everything, in the server's order. For one that falls behind, what happened to one
///   object becomes one event, but a deletion is always told, and an object that took a deleted one's name is told as a
///   deletion and an addition.
/// - A deletion that was missed is told when it is noticed, with the last known state
///   ([`Deleted::final_state_unknown`](crate::Deleted)).
/// - An object that cannot be read is [set aside](Self::set_aside), and nobody else is affected. If an earlier version of it
///   could be read, that one stays until the object is deleted or can be read again.
///
/// A clone is the same informer. When the last one is dropped, it ends, and its handlers with it.
pub struct SharedInformer<K> {
    shared: Arc<Shared<K>>,
    tasks: Arc<Tasks>,
}

/// What the tasks of an informer hold.
struct Shared<K> {
    kind: Kind<K>,
    clock: Clock,
    indexer: Arc<Indexer<K>>,
    fifo: Arc<DeltaFifo<K>>,
    decoder: Arc<Decoder<K>>,
    parts: Vec<Part>,
    listeners: Mutex<Listeners<K>>,
    /// Held by the task that applies what comes.
    applying: tokio::sync::Mutex<()>,
    /// When the time of the next resync may be another.
    resyncs: Notify,
    /// When everything was listed once.
    synced: CancellationToken,
    /// When something was applied.
    changed: Notify,
    events: AtomicU64,
    metrics: Arc<dyn Metrics>,
    on_error: Option<ErrorHook>,
    settings: Settings,
    resync: Option<Duration>,
}

/// One source of an informer.
struct Part {
    namespaces: Namespaces,
    list_watch: Arc<dyn ListWatch>,
    health: Arc<Health>,
    /// Held by the task that keeps up with it.
    reflecting: tokio::sync::Mutex<()>,
    /// When all of it has to be listed again.
    again: Notify,
    /// The version up to which it is applied, as a number, so that whoever asks for it does not wait for what is being
    /// applied. Zero until it was listed, and where versions are no numbers. It is set when the indexer has it all.
    reached: AtomicU64,
}

/// Who is told, and since when. Whoever holds its lock keeps changes from being applied.
struct Listeners<K> {
    all: Vec<Arc<Listener<K>>>,
    /// Of each part, the version up to which it is applied; none if it was never listed.
    versions: Vec<Option<String>>,
    named: u64,
}

/// Up to where one part was seen.
enum Seen<K> {
    Nothing,
    Version(String),
    /// Up to this object's version.
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

/// How a handler is to be told.
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
    /// What it is called in logs. By default a number.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Tells it of every object again after each period, as an update from a version to the same. At least a second.
    /// By default as the informer has it, which is never unless it is told otherwise.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(Resync::Every(period.max(Duration::from_secs(1))));
        self
    }

    /// Never tells it of what did not change, whatever the informer has as its default.
    pub fn no_resync(mut self) -> Self {
        self.resync = Some(Resync::Never);
        self
    }
}

/// What an informer did and has, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Objects.
    pub items: usize,
    /// How often everything was listed, with success.
    pub lists: u64,
    /// How often it was listed again after it had been listed before.
    pub relists: u64,
    /// Watches that were opened.
    pub watches: u64,
    /// Lists and watches that failed.
    pub failures: u64,
    /// Events that handlers were told, however many there are.
    pub events: u64,
    /// Objects that are set aside now.
    pub set_aside: usize,
    /// How often one was set aside.
    pub set_aside_total: u64,
    /// For how long nothing was heard of the server, by the part that has heard nothing for longest. A server sends
    /// bookmarks about once a minute.
    pub staleness: Option<Duration>,
    /// Handlers.
    pub handlers: usize,
    /// Events that wait for the handler for which most do.
    pub backlog: usize,
}

impl<K: Resource + Send + Sync + 'static> SharedInformer<K> {
    /// An informer of a kind, to be told where its objects come from. Its tasks are spawned below `spawner`'s scope.
    pub fn builder(spawner: &Spawner, kind: Kind<K>) -> InformerBuilder<K> {
        InformerBuilder::new(spawner.clone(), kind)
    }

    /// The objects. May be filled before the informer is started; what is there and turns out to be gone is told to
    /// handlers as a deletion. Fill it before handlers are added, so that they are told of what turns out to be the same.
    #[must_use]
    pub fn indexer(&self) -> &Arc<Indexer<K>> {
        &self.shared.indexer
    }

    /// The objects, to read only.
    #[must_use]
    pub fn lister(&self) -> Lister<K> {
        Lister::new(self.shared.indexer.clone())
    }

    /// What this is an informer of.
    #[must_use]
    pub fn kind(&self) -> &Kind<K> {
        &self.shared.kind
    }

    /// Adds a handler. What is there already is told to it first, as additions in the initial list.
    ///
    /// A handler that has to read the objects takes a [`lister`](Self::lister) along: one that holds the informer itself keeps
    /// it from ending when everybody else has dropped it.
    pub fn add_handler(&self, handler: impl Handler<K>) -> Registration {
        self.add_handler_with(HandlerOptions::default(), handler)
    }

    /// Adds a handler with options.
    pub fn add_handler_with(&self, options: HandlerOptions, handler: impl Handler<K>) -> Registration {
        let listener = self.shared.listen(options);
        self.tasks.handlers.spawn("handler", listener.clone().run(handler));
        Registration::new(listener)
    }

    /// The events, for somebody who asks for them one by one.
    pub fn subscribe(&self) -> Subscription<K> {
        self.subscribe_with(HandlerOptions::default())
    }

    /// The events, with options.
    pub fn subscribe_with(&self, options: HandlerOptions) -> Subscription<K> {
        Subscription::new(self.shared.listen(options))
    }

    /// Starts, unless it runs. After a stop it starts again: handlers are told of what happened meanwhile.
    ///
    /// # Panics
    /// Outside a tokio runtime.
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

    /// Stops, if it runs. Objects stay as they were, and handlers too: they are told what waits for them, and then nothing
    /// until it is started again.
    pub async fn stop(&self) {
        let running = lock(&self.tasks.running).take();
        if let Some(scope) = running {
            let drained = scope.drain(STOPPING).await;
            if !drained.is_clean() {
                tracing::warn!(kind = %self.shared.kind, left = ?drained.left(), "an informer did not stop in time");
            }
            if !self.is_running() {
                for part in &self.shared.parts {
                    part.health.enter(Phase::Stopped);
                }
            }
        }
    }

    /// Whether it was started and not stopped since.
    #[must_use]
    pub fn is_running(&self) -> bool {
        lock(&self.tasks.running).is_some()
    }

    /// Whether everything was listed once: the indexer is whole. Stays so.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.shared.synced.is_cancelled()
    }

    /// Waits until it [has synced](Self::has_synced), however long that takes.
    pub async fn synced(&self) {
        self.shared.synced.cancelled().await;
    }

    /// Waits until it has synced, but no longer than `limit`.
    ///
    /// # Errors
    /// When it has not, with what stands in the way.
    pub async fn wait_for_sync(&self, limit: Duration) -> Result<(), SyncError> {
        match self.shared.clock.timeout(limit, self.synced()).await {
            Ok(()) => Ok(()),
            Err(_) => match self.not_synced() {
                missing if missing.is_empty() => Ok(()),
                missing => Err(SyncError::new(limit, missing)),
            },
        }
    }

    /// What stands in the way of being in sync; nothing if it is.
    #[must_use]
    pub fn not_synced(&self) -> Vec<NotSynced> {
        self.shared.not_synced()
    }

    /// Up to which version of the collection the objects are those of the server: of several parts, the oldest. None until
    /// it has synced.
    #[must_use]
    pub fn last_sync_resource_version(&self) -> Option<String> {
        let listeners = self.shared.lock();
        let versions = listeners.versions.iter().cloned().collect::<Option<Vec<_>>>()?;
        versions.into_iter().min_by_key(|version| version.parse::<u64>().unwrap_or(u64::MAX))
    }

    /// Waits until something is applied that came after this call, even if the future is polled only later. It may be
    /// something that changes no object, such as a bookmark.
    ///
    /// Who waits for a state takes the future first, then looks, then waits: nothing is missed.
    pub fn changed(&self) -> impl Future<Output = ()> + Send + '_ {
        self.shared.changed.notified()
    }

    /// Whether all that happened to an object up to a version of the collection has been applied: what the indexer has of
    /// it is what the server had then, or newer. Not known, and so false, where versions are no numbers.
    #[must_use]
    pub fn has_reached(&self, key: &ObjectKey, version: u64) -> bool {
        let Some(part) = self.shared.parts.iter().position(|part| part.namespaces.contains(key)) else {
            return false;
        };
        let reached = self.shared.parts[part].reached.load(Ordering::Acquire);
        reached > 0 && reached >= version
    }

    /// An object of its bytes, as this informer would have it: transformed, and without what it leaves away. None if it
    /// cannot be read, and it is set aside then.
    #[must_use]
    pub fn decode(&self, object: &[u8], scratch: &mut Vec<u8>) -> Option<Arc<K>> {
        match self.shared.decoder.read(object, scratch) {
            Decoded::Known(object) | Decoded::New(object) => Some(object),
            Decoded::Unreadable(_) => None,
        }
    }

    /// Sets an object aside that it has in this version, because it turned out that it cannot be read whole: of some forms that
    /// is not known before somebody wants more of it than the informer does, and is as whoever that is wants it. Until the
    /// object changes, this counts and is logged once.
    pub fn put_aside(&self, object: &K, problem: &str) {
        let key = object_key(object);
        if self.shared.indexer.get(&key).is_some_and(|known| is_same(&*known, object)) {
            let version = object.meta().resource_version.as_deref().unwrap_or_default();
            self.shared.decoder.put_aside(&key, version, problem);
        }
    }

    /// The objects that cannot be read now. Of very many, some are only counted in [`Stats`].
    #[must_use]
    pub fn set_aside(&self) -> Vec<SetAside> {
        self.shared.decoder.shelf.all()
    }

    /// What it did and has.
    #[must_use]
    pub fn stats(&self) -> Stats {
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

    /// Keeps up with one part. What it was given by others (metrics, hooks) may panic, and everything is listed again then.
    async fn reflect(&self, number: usize, spawner: Spawner) {
        // One that was stopped a moment ago may not have ended, and must not tell of the past behind a new list.
        let _alone = self.parts[number].reflecting.lock().await;
        loop {
            let reflector = AssertUnwindSafe(self.reflector(number, spawner.clone()).run()).catch_unwind();
            let again = self.parts[number].again.notified();
            let panic = tokio::select! {
                biased;
                () = again => {
                    // What could not be applied may not be so the next time either.
                    self.clock.sleep(AFTER_PANIC).await;
                    continue;
                }
                Err(panic) = reflector => panic,
            };
            let panic = panic_message(&*panic);
            tracing::error!(kind = %self.kind, panic, "a reflector panicked, and begins again");
            self.parts[number].health.failed(&ListWatchError::Malformed(format!("it panicked: {panic}")));
            self.clock.sleep(AFTER_PANIC).await;
        }
    }

    /// Applies what comes, and says when it is time to tell everything again.
    async fn run(&self) {
        // One that was stopped a moment ago may not have ended.
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
                        // None of it counts. All is listed again, so that nothing is missed.
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

    /// Whether it was time to tell everything again.
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
                // Objects are only told once all were.
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

    /// Notes which object was seen last in its part. One that is no news may be from before what was seen, and counts only if
    /// it is not.
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

/// A version as a number, if it is one.
fn number(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who waits for events, or for a handler to be in sync, learns that there is nothing more to wait for.
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

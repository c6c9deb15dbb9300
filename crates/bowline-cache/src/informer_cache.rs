//! The informers of one API server. Owns the set of informers, their users, and when each one starts and ends.

mod any_informer;
mod error;
mod id;
mod informer;
mod options;
mod query;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_clock::{Scope, Spawner};
use futures::future::join_all;
use kube::{Client, Resource};
use tokio_util::sync::CancellationToken;

use crate::kind::Kind;
use crate::list_watch::Selectors;
use crate::lister::{Lister, NamespaceLister};
use crate::namespaces::Namespaces;
use crate::shared_informer::{
    InformerError, InformerStats, InformerStatus, NotSynced, SharedInformer, SyncError,
};
use any_informer::AnyInformer;
use bowline_machinery::ObjectKey;
pub use error::CacheError;
use id::{Id, Part};
pub use informer::InformerHandle;
use informer::Use;
use options::Resolved;
pub use options::{ALL_OTHER_NAMESPACES, CacheOptions, KindOptions, NamespaceSettings, SelectionSettings};
pub use query::ListQuery;

/// Shared informers of one API server: one watch per kind, representation, namespaces and selectors.
///
/// A request for the same combination returns the same informer. An informer starts when it is first requested, or all
/// start together with [`start`](Self::start). An informer from [`get_informer`](Self::get_informer) ends with its last
/// user. One that a read or an index needed stays until it is [removed](Self::remove_informer).
///
/// # Reads
/// [`get`](Self::get), [`list`](Self::list) and the listers wait until the kind has synced. After
/// [`CacheOptions::sync_timeout`] they fail with the reason; dropping the future ends the wait earlier. A kind that has
/// synced stays readable, also after the cache is stopped: in its state at the stop.
///
/// A clone is the same cache. When the last clone is dropped, all its informers end.
#[derive(Clone)]
pub struct InformerCache {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    options: CacheOptions,
    scope: Scope,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Cancelled by a stop; `None` while the cache is not started.
    running: Option<CancellationToken>,
    informers: BTreeMap<Arc<Id>, Entry>,
    /// Informers that reads keep, to find them without resolving the options again.
    read: Vec<Readable>,
}

struct Entry {
    informer: Arc<dyn AnyInformer>,
    users: usize,
    /// Whether it stays after its last user is gone.
    is_kept: bool,
    /// Whether it stays because it was read.
    is_read: bool,
    /// Cancelled when it leaves the cache.
    gone: CancellationToken,
}

/// An informer for reads.
#[derive(Clone)]
struct Readable {
    id: Arc<Id>,
    informer: Arc<dyn AnyInformer>,
    gone: CancellationToken,
}

/// The cached part of a kind in some namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// Cached namespaces.
    pub namespaces: Namespaces,
    /// Selectors of the cached objects.
    pub selectors: Selectors,
    /// Whether `metadata.managedFields` are kept.
    pub keep_managed_fields: bool,
}

impl InformerCache {
    /// A cache of the objects that a client can read. Its tasks are spawned below `spawner`'s scope.
    #[must_use]
    pub fn new(spawner: &Spawner, client: Client, options: CacheOptions) -> Self {
        let scope = spawner.scope("cache");
        Self { inner: Arc::new(Inner { client, options, scope, state: Mutex::default() }) }
    }

    /// Returns the informer of a kind, with the cache's options. It is started if the cache is.
    ///
    /// # Errors
    /// [`CacheError`] if the options do not fit the kind: an invalid selector, or namespaces for a cluster-scoped kind.
    pub fn get_informer<K>(&self, kind: &Kind<K>) -> Result<InformerHandle<K>, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        self.inner.get_informer(kind, self.inner.options.of(kind), false)
    }

    /// Returns the informer of a kind in some namespaces and with some selectors, independent of the cache's options.
    /// The cache's own reads do not use it; read through [its lister](SharedInformer::lister).
    ///
    /// # Errors
    /// [`CacheError`] if there are no namespaces or they overlap, and as for [`get_informer`](Self::get_informer).
    pub fn get_informer_of<K>(
        &self,
        kind: &Kind<K>,
        parts: impl IntoIterator<Item = (Namespaces, Selectors)>,
    ) -> Result<InformerHandle<K>, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        self.inner.get_informer(kind, self.inner.options.of_parts(kind, parts), false)
    }

    /// Stops and removes the informers of a kind in its representation, even if they have users. Users keep the objects
    /// in their last state. Waits for their sync end with an error. Returns whether there were any.
    pub async fn remove_informer<K>(&self, kind: &Kind<K>) -> bool
    where
        K: Resource + Send + Sync + 'static,
    {
        let removed = self.inner.take_out(kind);
        join_all(removed.iter().map(|informer| informer.stop())).await;
        !removed.is_empty()
    }

    /// Ends the hold that reads have on a kind in its representation. Its informer ends if it has no users, or with its
    /// last one. The next read starts a new one.
    pub fn release<K>(&self, kind: &Kind<K>)
    where
        K: Resource + Send + Sync + 'static,
    {
        drop(self.inner.release(kind));
    }

    /// Adds an index to the informer of a kind, for use in [`list`](Self::list). The informer then stays until it is
    /// removed.
    ///
    /// # Errors
    /// [`CacheError`] if the index exists, and as for [`get_informer`](Self::get_informer).
    pub fn add_index<K>(
        &self,
        kind: &Kind<K>,
        name: impl Into<String>,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        let informer = self.inner.get_informer(kind, self.inner.options.of(kind), true)?;
        Ok(informer.indexer().add_index(name, values)?)
    }

    /// Returns one object, once its kind has synced; `None` if it does not exist. For a cluster-scoped kind, the key's
    /// namespace is ignored.
    ///
    /// # Errors
    /// [`CacheError`] if the cache cannot answer.
    pub async fn get<K>(&self, kind: &Kind<K>, key: &ObjectKey) -> Result<Option<Arc<K>>, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        if !kind.is_namespaced() {
            return Ok(self.readable(kind, None).await?.indexer().get_in("", key.name()));
        }
        let Some(namespace) = key.namespace() else {
            return Err(CacheError::NoNamespace { kind: kind.to_string(), name: key.name().to_owned() });
        };
        Ok(self.readable(kind, Some(namespace)).await?.indexer().get(key))
    }

    /// Returns the objects that match a query, ordered by key, once their kind has synced. For a cluster-scoped kind,
    /// the query's namespace is ignored.
    ///
    /// # Errors
    /// [`CacheError`] if the cache cannot answer.
    pub async fn list<K>(&self, kind: &Kind<K>, query: &ListQuery) -> Result<Vec<Arc<K>>, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        if !query.field_selector().is_everything() {
            let fields = query.field_selector().to_string();
            return Err(CacheError::Fields { kind: kind.to_string(), fields });
        }
        let namespace = query.namespace().filter(|_| kind.is_namespaced());
        let informer = self.readable(kind, namespace).await?;
        Ok(query.run(informer.indexer(), namespace)?)
    }

    /// Returns a lister of a kind, once the kind has synced.
    ///
    /// # Errors
    /// [`CacheError`] if the kind has not synced in time.
    pub async fn lister<K>(&self, kind: &Kind<K>) -> Result<Lister<K>, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        Ok(self.readable(kind, None).await?.lister())
    }

    /// Returns a lister of a kind in one namespace, once the kind has synced.
    ///
    /// # Errors
    /// [`CacheError`] if the kind has not synced in time, or if the namespace is not cached.
    pub async fn namespace_lister<K>(
        &self,
        kind: &Kind<K>,
        namespace: impl Into<String>,
    ) -> Result<NamespaceLister<K>, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        let namespace = namespace.into();
        Ok(self.readable(kind, Some(&namespace)).await?.lister().namespace(namespace))
    }

    /// Starts all informers, and from now on each new one. After a stop they resume, and handlers receive the changes
    /// since then.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    pub fn start(&self) {
        let mut state = self.inner.lock();
        state.running.get_or_insert_default();
        state.start_all();
    }

    /// Stops all informers. They can be started again.
    pub async fn stop(&self) {
        let informers: Vec<_> = {
            let mut state = self.inner.lock();
            if let Some(running) = state.running.take() {
                running.cancel();
            }
            state.informers.values().map(|entry| entry.informer.clone()).collect()
        };
        join_all(informers.iter().map(|informer| informer.stop())).await;
        // A concurrent start may have found informers that still ran, and have stopped now.
        let state = self.inner.lock();
        if state.running.is_some() {
            state.start_all();
        }
    }

    /// Waits until all present informers have synced, at most for `limit`. Informers that are removed meanwhile do not
    /// count.
    ///
    /// # Errors
    /// [`SyncError`] after the limit. It names what has not synced, and why.
    pub async fn wait_for_sync(&self, limit: Duration) -> Result<(), SyncError> {
        let waited_for: Vec<_> = {
            let state = self.inner.lock();
            state.informers.values().map(|entry| (entry.informer.clone(), entry.gone.clone())).collect()
        };
        let all = async {
            for (informer, gone) in &waited_for {
                tokio::select! {
                    biased;
                    () = informer.synced() => {}
                    () = gone.cancelled() => {}
                }
            }
        };
        if self.inner.scope.spawner().clock().timeout(limit, all).await.is_ok() {
            return Ok(());
        }
        let left = waited_for.iter().filter(|(_, gone)| !gone.is_cancelled());
        Err(SyncError::new(limit, left.flat_map(|(informer, _)| informer.not_synced()).collect()))
    }

    /// The parts of present informers that have not synced, and why.
    #[must_use]
    pub fn not_synced(&self) -> Vec<NotSynced> {
        self.informers().iter().flat_map(|informer| informer.not_synced()).collect()
    }

    /// The counters of each informer, with its kind. Informers of one kind are adjacent.
    #[must_use]
    pub fn stats(&self) -> Vec<(String, InformerStats)> {
        self.informers().iter().map(|informer| (informer.name(), informer.stats())).collect()
    }

    /// The status of each informer, in the order of [`stats`](Self::stats).
    #[must_use]
    pub fn statuses(&self) -> Vec<InformerStatus> {
        self.informers().iter().map(|informer| informer.status()).collect()
    }

    fn informers(&self) -> Vec<Arc<dyn AnyInformer>> {
        self.inner.lock().informers.values().map(|entry| entry.informer.clone()).collect()
    }

    /// The cached part of a kind, by the options. Independent of the representation.
    ///
    /// # Errors
    /// As for [`get_informer`](Self::get_informer).
    pub fn coverage<K: 'static>(&self, kind: &Kind<K>) -> Result<Vec<Coverage>, CacheError> {
        let id = Id::new(kind, self.inner.options.of(kind).parts)?;
        let coverage = |Part { namespaces, selectors, keep_managed_fields }| Coverage {
            namespaces,
            selectors,
            keep_managed_fields,
        };
        Ok(id.parts.into_iter().map(coverage).collect())
    }

    /// Checks that the options cache a kind in a namespace. Does not wait and starts no informer.
    ///
    /// # Errors
    /// [`CacheError::NotCached`] if the namespace is not cached, and as for [`get_informer`](Self::get_informer).
    pub fn check_namespace<K: 'static>(&self, kind: &Kind<K>, namespace: &str) -> Result<(), CacheError> {
        check_cached(kind, &Id::new(kind, self.inner.options.of(kind).parts)?, Some(namespace))
    }

    /// Returns the synced informer that reads of a kind use. With a namespace, only if that is cached.
    ///
    /// # Errors
    /// [`CacheError`] if the cache cannot answer.
    pub async fn readable<K>(
        &self,
        kind: &Kind<K>,
        namespace: Option<&str>,
    ) -> Result<SharedInformer<K>, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        let (readable, running) = self.inner.find_readable(kind, namespace)?;
        let informer: SharedInformer<K> = typed(&*readable.informer);
        // A second reference would keep the informer alive during the wait.
        let gone = readable.gone;
        drop(readable.informer);
        if informer.has_synced() {
            return Ok(informer);
        }
        let Some(running) = running else {
            return Err(CacheError::NotStarted { kind: kind.to_string() });
        };
        tokio::select! {
            biased;
            synced = informer.wait_for_sync(self.inner.options.sync_limit) => synced?,
            () = gone.cancelled() => return Err(CacheError::Removed { kind: kind.to_string() }),
            () = running.cancelled() => return Err(CacheError::NotStarted { kind: kind.to_string() }),
        }
        Ok(informer)
    }
}

impl Entry {
    fn is_needed(&self) -> bool {
        self.users > 0 || self.is_kept || self.is_read
    }
}

impl State {
    fn start_all(&self) {
        for entry in self.informers.values() {
            entry.informer.start();
        }
    }
}

impl Inner {
    fn get_informer<K>(
        self: &Arc<Self>,
        kind: &Kind<K>,
        resolved: Resolved<K>,
        keep: bool,
    ) -> Result<InformerHandle<K>, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        let id = Arc::new(Id::new(kind, resolved.parts.clone())?);
        let mut state = self.lock();
        let entry = self.entry(&mut state, kind, &id, resolved)?;
        entry.users += 1;
        entry.is_kept |= keep;
        let in_use = Use { cache: Arc::downgrade(self), id, gone: entry.gone.clone() };
        Ok(InformerHandle { informer: typed(&*entry.informer), in_use: Arc::new(in_use) })
    }

    /// Returns the informer for a read, and whether the cache runs. Creates the informer if that is allowed. A failed
    /// read leaves nothing behind.
    fn find_readable<K>(
        &self,
        kind: &Kind<K>,
        namespace: Option<&str>,
    ) -> Result<(Readable, Option<CancellationToken>), CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        let mut state = self.lock();
        let running = state.running.clone();
        if let Some(readable) = state.read.iter().find(|readable| readable.id.is_of(kind)) {
            check_cached(kind, &readable.id, namespace)?;
            return Ok((readable.clone(), running));
        }
        let resolved = self.options.of(kind);
        let id = Arc::new(Id::new(kind, resolved.parts.clone())?);
        check_cached(kind, &id, namespace)?;
        let known = state.informers.get(&id);
        if known.is_none() && self.options.fails_on_missing {
            return Err(CacheError::NoInformer { kind: kind.to_string() });
        }
        if running.is_none() && !known.is_some_and(|entry| entry.informer.has_synced()) {
            return Err(CacheError::NotStarted { kind: kind.to_string() });
        }
        // If reads may not create informers, they also do not keep them.
        let keep = !self.options.fails_on_missing;
        let entry = self.entry(&mut state, kind, &id, resolved)?;
        entry.is_read |= keep;
        let readable = Readable { id, informer: entry.informer.clone(), gone: entry.gone.clone() };
        if keep {
            state.read.push(readable.clone());
        }
        Ok((readable, running))
    }

    /// Returns the entry of an informer; creates it if needed.
    fn entry<'a, K>(
        &self,
        state: &'a mut State,
        kind: &Kind<K>,
        id: &Arc<Id>,
        resolved: Resolved<K>,
    ) -> Result<&'a mut Entry, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        if !state.informers.contains_key(id) {
            let informer = self.make(kind, resolved)?;
            if state.running.is_some() {
                informer.start();
            }
            let entry = Entry {
                informer: Arc::new(informer),
                users: 0,
                is_kept: false,
                is_read: false,
                gone: CancellationToken::new(),
            };
            state.informers.insert(id.clone(), entry);
        }
        Ok(state.informers.get_mut(id).expect("the entry exists or was just inserted"))
    }

    fn make<K>(&self, kind: &Kind<K>, resolved: Resolved<K>) -> Result<SharedInformer<K>, InformerError>
    where
        K: Resource + Send + Sync + 'static,
    {
        let spawner = self.scope.spawner();
        let mut builder = SharedInformer::builder(&spawner, kind.clone());
        for part in resolved.parts {
            if part.keep_managed_fields {
                builder = builder.keep_managed_fields_in(part.namespaces.clone());
            }
            builder = builder.selected(self.client.clone(), part.namespaces, part.selectors);
        }
        if let Some(transform) = resolved.transform {
            builder = builder.transform(move |object| transform(object));
        } else if let Some(transform) = resolved.meta_transform {
            builder = builder.transform(move |object: &mut K| transform(object.meta_mut()));
        }
        if let Some(period) = resolved.resync {
            // Spread the resyncs of informers that were created together.
            let spread = 0.9 + 0.2 * spawner.clock().rng().unit();
            let period = Duration::try_from_secs_f64(period.as_secs_f64() * spread).unwrap_or(Duration::MAX);
            builder = builder.resync(period);
        }
        if let Some(hook) = self.options.on_error.clone() {
            let kind = kind.to_string();
            builder = builder.on_error(move |error| hook(&kind, error));
        }
        builder.build()
    }

    /// Removes one user of an informer, and the informer with its last user.
    fn leave(&self, id: &Id, gone: &CancellationToken) {
        let mut state = self.lock();
        // A removed informer has no users to count, and another may have its id.
        if gone.is_cancelled() {
            return;
        }
        let Some(entry) = state.informers.get_mut(id) else { return };
        entry.users -= 1;
        if entry.is_needed() {
            return;
        }
        gone.cancel();
        let entry = state.informers.remove(id);
        drop(state);
        // Ends its tasks, unless it is still referenced.
        drop(entry);
    }

    /// Ends the hold of reads on a kind. Returns the informers that are no longer needed; dropping them ends their
    /// tasks.
    fn release<K: 'static>(&self, kind: &Kind<K>) -> Vec<Entry> {
        let mut state = self.lock();
        state.read.retain(|readable| !readable.id.is_of(kind));
        let released = state.informers.extract_if(.., |id, entry| {
            entry.is_read &= !id.is_of(kind);
            id.is_of(kind) && !entry.is_needed()
        });
        released.inspect(|(_, entry)| entry.gone.cancel()).map(|(_, entry)| entry).collect()
    }

    /// Removes the informers of a kind in its representation.
    fn take_out<K: 'static>(&self, kind: &Kind<K>) -> Vec<Arc<dyn AnyInformer>> {
        let mut state = self.lock();
        state.read.retain(|readable| !readable.id.is_of(kind));
        let removed = state.informers.extract_if(.., |id, _| id.is_of(kind));
        removed
            .map(|(_, entry)| {
                entry.gone.cancel();
                entry.informer
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn typed<K: Resource + Send + Sync + 'static>(informer: &dyn AnyInformer) -> SharedInformer<K> {
    informer.as_any().downcast_ref().cloned().expect("the type is part of the id")
}

fn check_cached<K>(kind: &Kind<K>, id: &Id, namespace: Option<&str>) -> Result<(), CacheError> {
    match namespace {
        Some(namespace) if !id.has(namespace) => Err(CacheError::NotCached {
            kind: kind.to_string(),
            namespace: namespace.to_owned(),
            cached: id.covered(),
        }),
        _ => Ok(()),
    }
}

impl fmt::Debug for InformerCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.inner.lock();
        let informers: Vec<_> = state.informers.values().map(|entry| entry.informer.name()).collect();
        f.debug_struct("InformerCache").field("informers", &informers).finish_non_exhaustive()
    }
}

//! All informers of one API server. Owns which there are, who uses them, and when one starts and ends.

mod options;
mod query;

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bowline_clock::{Scope, Spawner};
use kube::{Client, Resource};

use crate::indexer::IndexError;
use crate::kind::{Form, Kind};
use crate::list_watch::Selectors;
use crate::lister::Lister;
use crate::namespaces::Namespaces;
use crate::shared_informer::{InformerError, NotSynced, SharedInformer, Stats, SyncError};
use bowline_machinery::ObjectKey;
pub use options::{ALL_OTHERS, CacheOptions, KindOptions, NamespaceSettings, Settings};
pub use query::ListQuery;

/// Informers by what they hold, shared by all who ask for the same: one watch for each.
///
/// Informers of the same kind in another form (typed, dynamic, metadata only) or with other namespaces or selectors are
/// others. They are started when somebody asks for one, or all at once by [`start`](Self::start). One that was asked for by
/// [`get_informer`](Self::get_informer) ends when its last user is gone; one that a read or an index needed stays until it
/// is [removed](Self::remove_informer).
///
/// A clone is the same cache.
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
    is_started: bool,
    informers: BTreeMap<Id, Entry>,
}

/// What an informer holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    group: String,
    version: String,
    kind: String,
    form: Form,
    object: TypeId,
    parts: Vec<(Namespaces, Selectors)>,
}

struct Entry {
    informer: Arc<dyn AnyInformer>,
    users: usize,
    /// Whether it stays when its last user is gone.
    is_kept: bool,
    /// Told apart from one that was removed before it.
    number: Arc<()>,
}

/// Why a cache cannot answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// Nobody started the cache, so that waiting for it would never end.
    #[error("the cache is not started, so {kind} cannot be read: call `start` first")]
    NotStarted {
        /// What was to be read.
        kind: String,
    },
    /// There is no informer, and none may be made.
    #[error(
        "there is no informer of {kind}, and the cache was told to fail then: ask for one with `get_informer` first"
    )]
    NoInformer {
        /// What was to be read.
        kind: String,
    },
    /// What was asked for is outside what is cached.
    #[error("{kind} in namespace {namespace} is not cached: the cache has {cached}")]
    NotCached {
        /// What was to be read.
        kind: String,
        /// Where.
        namespace: String,
        /// What is cached of it.
        cached: String,
    },
    /// The informer was not in sync in time.
    #[error(transparent)]
    NotSynced(#[from] SyncError),
    /// There is no such index.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The informer cannot be made.
    #[error(transparent)]
    Informer(#[from] InformerError),
}

/// An informer of a cache, in use: as long as there is one of these, it is there. A clone is one more.
pub struct Informer<K> {
    informer: SharedInformer<K>,
    use_: Arc<Use>,
}

/// One user of an informer, who leaves by being dropped.
struct Use {
    cache: Weak<Inner>,
    id: Id,
    number: Arc<()>,
}

impl Drop for Use {
    fn drop(&mut self) {
        let Some(inner) = self.cache.upgrade() else { return };
        let mut state = inner.lock();
        let Some(entry) = state.informers.get_mut(&self.id) else { return };
        if !Arc::ptr_eq(&entry.number, &self.number) {
            return;
        }
        entry.users -= 1;
        if entry.users == 0 && !entry.is_kept {
            let entry = state.informers.remove(&self.id);
            drop(state);
            // Ends its tasks, unless somebody still has it.
            drop(entry);
        }
    }
}

impl<K> Deref for Informer<K> {
    type Target = SharedInformer<K>;

    fn deref(&self) -> &SharedInformer<K> {
        &self.informer
    }
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { informer: self.informer.clone(), use_: self.use_.clone() }
    }
}

impl<K> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Informer").field(&self.use_.id).finish()
    }
}

impl InformerCache {
    /// A cache of what a client can read. Its tasks are spawned below `spawner`'s scope.
    #[must_use]
    pub fn new(spawner: &Spawner, client: Client, options: CacheOptions) -> Self {
        let scope = spawner.scope("cache");
        Self { inner: Arc::new(Inner { client, options, scope, state: Mutex::default() }) }
    }

    /// The informer of a kind, as the cache's options have it. It is started if the cache is.
    ///
    /// # Errors
    /// When the options contradict each other.
    pub fn get_informer<K>(&self, kind: &Kind<K>) -> Result<Informer<K>, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        self.inner.get_informer(kind, None, false)
    }

    /// The informer of a kind in some namespaces and with some selectors, whatever the cache's options have.
    ///
    /// # Errors
    /// When the namespaces overlap.
    pub fn get_informer_of<K>(
        &self,
        kind: &Kind<K>,
        parts: impl IntoIterator<Item = (Namespaces, Selectors)>,
    ) -> Result<Informer<K>, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        self.inner.get_informer(kind, Some(parts.into_iter().collect()), false)
    }

    /// Stops and forgets the informers of a kind in its form, whoever uses them: their objects stay as they are for those
    /// who still have them. Whether there were any.
    pub async fn remove_informer<K>(&self, kind: &Kind<K>) -> bool
    where
        K: Resource + Send + Sync + 'static,
    {
        let removed: Vec<_> = {
            let mut state = self.inner.lock();
            let resource = kind.resource();
            let is_meant = |id: &Id| {
                id.object == TypeId::of::<K>()
                    && id.form == kind.form()
                    && (&id.group, &id.version, &id.kind)
                        == (&resource.group, &resource.version, &resource.kind)
            };
            state.informers.extract_if(.., |id, _| is_meant(id)).map(|(_, entry)| entry.informer).collect()
        };
        for informer in &removed {
            informer.stop().await;
        }
        !removed.is_empty()
    }

    /// Adds an index to the informer of a kind, by which [`list`](Self::list) finds objects.
    ///
    /// # Errors
    /// When there is one of that name.
    pub fn add_index<K>(
        &self,
        kind: &Kind<K>,
        name: impl Into<String>,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        let informer = self.inner.get_informer(kind, None, true)?;
        Ok(informer.indexer().add_index(name, values)?)
    }

    /// One object, once its kind is in sync. None if there is no such object.
    ///
    /// # Errors
    /// When the cache cannot tell.
    pub async fn get<K>(&self, kind: &Kind<K>, key: &ObjectKey) -> Result<Option<Arc<K>>, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        let informer = self.readable(kind, key.namespace()).await?;
        Ok(informer.indexer().get(key))
    }

    /// The objects that a query asks for, in the order of their keys, once their kind is in sync.
    ///
    /// # Errors
    /// When the cache cannot tell.
    pub async fn list<K>(&self, kind: &Kind<K>, query: &ListQuery) -> Result<Vec<Arc<K>>, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        let informer = self.readable(kind, query.namespace()).await?;
        Ok(query.run(informer.indexer())?)
    }

    /// The objects of a kind, to read at any time, once they are in sync.
    ///
    /// # Errors
    /// When they are not.
    pub async fn lister<K>(&self, kind: &Kind<K>) -> Result<Lister<K>, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        Ok(self.readable(kind, None).await?.lister())
    }

    /// Starts all informers that there are, and each from now on as soon as it is asked for.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(&self) {
        let mut state = self.inner.lock();
        state.is_started = true;
        for entry in state.informers.values() {
            entry.informer.start();
        }
    }

    /// Stops all informers. They can be started again.
    pub async fn stop(&self) {
        let informers: Vec<_> = {
            let mut state = self.inner.lock();
            state.is_started = false;
            state.informers.values().map(|entry| entry.informer.clone()).collect()
        };
        for informer in informers {
            informer.stop().await;
        }
    }

    /// Waits until all informers that there are now are in sync, but no longer than `limit`.
    ///
    /// # Errors
    /// Which are not, and why.
    pub async fn wait_for_sync(&self, limit: Duration) -> Result<(), SyncError> {
        let informers: Vec<_> =
            self.inner.lock().informers.values().map(|entry| entry.informer.clone()).collect();
        let all = async {
            for informer in &informers {
                informer.synced().await;
            }
        };
        match self.inner.scope.spawner().clock().timeout(limit, all).await {
            Ok(()) => Ok(()),
            Err(_) => Err(SyncError::new(
                limit,
                informers.iter().flat_map(|informer| informer.not_synced()).collect(),
            )),
        }
    }

    /// Each informer, by its kind and form, and what it did and has.
    #[must_use]
    pub fn stats(&self) -> Vec<(String, Stats)> {
        let state = self.inner.lock();
        state.informers.values().map(|entry| (entry.informer.name(), entry.informer.stats())).collect()
    }

    /// An informer that may be read from, in sync.
    async fn readable<K>(&self, kind: &Kind<K>, namespace: Option<&str>) -> Result<Informer<K>, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        let inner = &self.inner;
        if inner.options.fails_on_missing && !inner.has_informer(kind) {
            return Err(CacheError::NoInformer { kind: kind.to_string() });
        }
        let informer = inner.get_informer(kind, None, true)?;
        if let Some(namespace) = namespace
            && kind.is_namespaced()
            && !informer.use_.id.parts.iter().any(|(namespaces, _)| namespaces.has(namespace))
        {
            let cached: Vec<_> =
                informer.use_.id.parts.iter().map(|(namespaces, _)| namespaces.to_string()).collect();
            let (kind, namespace) = (kind.to_string(), namespace.to_owned());
            return Err(CacheError::NotCached { kind, namespace, cached: cached.join(", ") });
        }
        if !informer.has_synced() {
            if !inner.lock().is_started {
                return Err(CacheError::NotStarted { kind: kind.to_string() });
            }
            informer.wait_for_sync(inner.options.sync_limit).await?;
        }
        Ok(informer)
    }
}

impl Inner {
    fn get_informer<K>(
        self: &Arc<Self>,
        kind: &Kind<K>,
        parts: Option<Vec<(Namespaces, Selectors)>>,
        keep: bool,
    ) -> Result<Informer<K>, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        let mut resolved = self.options.of(kind);
        if let Some(parts) = parts {
            resolved.parts = parts;
        }
        let id = Id::new(kind, resolved.parts.clone());
        let mut state = self.lock();
        if !state.informers.contains_key(&id) {
            let informer = self.make(kind, resolved)?;
            if state.is_started {
                informer.start();
            }
            let entry =
                Entry { informer: Arc::new(informer), users: 0, is_kept: false, number: Arc::new(()) };
            state.informers.insert(id.clone(), entry);
        }
        let entry = state.informers.get_mut(&id).expect("it was just put there");
        let informer: SharedInformer<K> =
            entry.informer.as_any().downcast_ref().cloned().expect("the type is part of the id");
        entry.users += 1;
        entry.is_kept |= keep;
        let use_ = Use { cache: Arc::downgrade(self), id, number: entry.number.clone() };
        Ok(Informer { informer, use_: Arc::new(use_) })
    }

    fn make<K>(
        &self,
        kind: &Kind<K>,
        resolved: options::Resolved<K>,
    ) -> Result<SharedInformer<K>, InformerError>
    where
        K: Resource + Send + Sync + 'static,
    {
        let spawner = self.scope.spawner();
        let mut builder = SharedInformer::builder(&spawner, kind.clone());
        for (namespaces, selectors) in resolved.parts {
            builder = builder.selected(self.client.clone(), namespaces, selectors);
        }
        if resolved.keep_managed_fields {
            builder = builder.keep_managed_fields();
        }
        if let Some(transform) = resolved.transform {
            builder = builder.transform(move |object| transform(object));
        } else if let Some(transform) = resolved.meta_transform {
            builder = builder.transform(move |object: &mut K| transform(object.meta_mut()));
        }
        if let Some(period) = resolved.resync {
            // Informers that were made together need not tell everything at the same moment.
            let spread = 0.9 + 0.2 * spawner.clock().rng().unit();
            builder = builder.resync(period.mul_f64(spread));
        }
        builder.build()
    }

    fn has_informer<K: 'static>(&self, kind: &Kind<K>) -> bool {
        let id = Id::new(kind, self.options.of(kind).parts);
        self.lock().informers.contains_key(&id)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Id {
    fn new<K: 'static>(kind: &Kind<K>, parts: Vec<(Namespaces, Selectors)>) -> Self {
        let resource = kind.resource();
        Self {
            group: resource.group.clone(),
            version: resource.version.clone(),
            kind: resource.kind.clone(),
            form: kind.form(),
            object: TypeId::of::<K>(),
            parts,
        }
    }
}

impl fmt::Debug for InformerCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.inner.lock();
        let informers: Vec<_> = state.informers.values().map(|entry| entry.informer.name()).collect();
        f.debug_struct("InformerCache").field("informers", &informers).finish_non_exhaustive()
    }
}

type Boxed<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// An informer, whatever its objects are.
trait AnyInformer: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn name(&self) -> String;
    fn start(&self);
    fn stop(&self) -> Boxed<'_>;
    fn synced(&self) -> Boxed<'_>;
    fn not_synced(&self) -> Vec<NotSynced>;
    fn stats(&self) -> Stats;
}

impl<K: Resource + Send + Sync + 'static> AnyInformer for SharedInformer<K> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> String {
        self.kind().to_string()
    }

    fn start(&self) {
        self.start();
    }

    fn stop(&self) -> Boxed<'_> {
        Box::pin(self.stop())
    }

    fn synced(&self) -> Boxed<'_> {
        Box::pin(self.synced())
    }

    fn not_synced(&self) -> Vec<NotSynced> {
        self.not_synced()
    }

    fn stats(&self) -> Stats {
        self.stats()
    }
}

//! All informers of one API server. Owns which there are, who uses them, and when one starts and ends.

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
use crate::shared_informer::{InformerError, InformerStatus, NotSynced, SharedInformer, Stats, SyncError};
use any_informer::AnyInformer;
use bowline_machinery::ObjectKey;
pub use error::CacheError;
use id::{Id, Part};
pub use informer::Informer;
use informer::Use;
use options::Resolved;
pub use options::{ALL_OTHERS, CacheOptions, KindOptions, NamespaceSettings, Settings};
pub use query::ListQuery;

/// Informers by what they hold, shared by all who ask for the same: one watch for each.
///
/// Informers of the same kind in another form (typed, dynamic, metadata only, packed) or with other namespaces or
/// selectors are others. They are started when somebody asks for one, or all at once by [`start`](Self::start). One that
/// was asked for by [`get_informer`](Self::get_informer) ends when its last user is gone; one that a read or an index
/// needed stays until it is [removed](Self::remove_informer).
///
/// # Reads
/// [`get`](Self::get), [`list`](Self::list) and the listers wait until the kind was listed once, and end with the reason
/// if that takes longer than [`CacheOptions::sync_limit`]; whoever waits no longer drops the future. What was listed once
/// can be read ever after, also when the cache is stopped: as it was then.
///
/// A clone is the same cache. When the last one is dropped, all its informers end.
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
    /// Cancelled by a stop; none when the cache is not started.
    running: Option<CancellationToken>,
    informers: BTreeMap<Arc<Id>, Entry>,
    /// The informers that reads keep, found without working out again what the options say about their kinds.
    read: Vec<Readable>,
}

struct Entry {
    informer: Arc<dyn AnyInformer>,
    users: usize,
    /// Whether it stays when its last user is gone.
    is_kept: bool,
    /// Whether it stays because it was read.
    is_read: bool,
    /// Cancelled when it leaves the cache.
    gone: CancellationToken,
}

/// An informer that can be read from.
#[derive(Clone)]
struct Readable {
    id: Arc<Id>,
    informer: Arc<dyn AnyInformer>,
    gone: CancellationToken,
}

/// What is cached of a kind in some namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// Where.
    pub namespaces: Namespaces,
    /// What of it.
    pub selectors: Selectors,
    /// Whether with `metadata.managedFields`.
    pub keep_managed_fields: bool,
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
    /// When the options make no sense for this kind: a selector that cannot be read, or namespaces for a kind that is in
    /// none.
    pub fn get_informer<K>(&self, kind: &Kind<K>) -> Result<Informer<K>, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        self.inner.get_informer(kind, self.inner.options.of(kind), false)
    }

    /// The informer of a kind in some namespaces and with some selectors, whatever the cache's options have. Reads from the
    /// cache do not look there, only [what it holds](SharedInformer::lister) itself.
    ///
    /// # Errors
    /// When there are no namespaces or they overlap, and as [`get_informer`](Self::get_informer).
    pub fn get_informer_of<K>(
        &self,
        kind: &Kind<K>,
        parts: impl IntoIterator<Item = (Namespaces, Selectors)>,
    ) -> Result<Informer<K>, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        self.inner.get_informer(kind, self.inner.options.of_parts(kind, parts), false)
    }

    /// Stops and forgets the informers of a kind in its form, whoever uses them: their objects stay as they are for those
    /// who still have them, and who waits for one to be in sync is told. Whether there were any.
    pub async fn remove_informer<K>(&self, kind: &Kind<K>) -> bool
    where
        K: Resource + Send + Sync + 'static,
    {
        let removed = self.inner.take_out(kind);
        join_all(removed.iter().map(|informer| informer.stop())).await;
        !removed.is_empty()
    }

    /// Forgets that objects of a kind in its form were read: its informer ends if nobody uses it, or when nobody does. The
    /// next read begins anew.
    pub fn release<K>(&self, kind: &Kind<K>)
    where
        K: Resource + Send + Sync + 'static,
    {
        drop(self.inner.release(kind));
    }

    /// Adds an index to the informer of a kind, by which [`list`](Self::list) finds objects. The informer stays from now
    /// on.
    ///
    /// # Errors
    /// When there is one of that name, and as [`get_informer`](Self::get_informer).
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

    /// One object, once its kind is in sync. None if there is no such object. Of a kind that is in no namespace, that of
    /// the key does not matter.
    ///
    /// # Errors
    /// When the cache cannot tell.
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

    /// The objects that a query asks for, in the order of their keys, once their kind is in sync. Of a kind that is in no
    /// namespace, that of the query does not matter.
    ///
    /// # Errors
    /// When the cache cannot tell.
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

    /// The objects of a kind in a namespace, to read at any time, once they are in sync.
    ///
    /// # Errors
    /// When they are not, or the namespace is not cached.
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

    /// Starts all informers that there are, and each from now on as soon as it is asked for. After a stop they go on from
    /// where they were: handlers are told of what happened meanwhile.
    ///
    /// # Panics
    /// Outside a tokio runtime.
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
        // Who started it again meanwhile may have found informers that were still running, and are not now.
        let state = self.inner.lock();
        if state.running.is_some() {
            state.start_all();
        }
    }

    /// Waits until all informers that there are now are in sync, but no longer than `limit`. One that is removed meanwhile
    /// is not waited for.
    ///
    /// # Errors
    /// Which are not, and why.
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

    /// What has not been listed yet of all informers that there are now, and why.
    #[must_use]
    pub fn not_synced(&self) -> Vec<NotSynced> {
        self.informers().iter().flat_map(|informer| informer.not_synced()).collect()
    }

    /// Each informer, by its kind, and what it did and has. Informers of one kind in several forms or namespaces come one
    /// after the other.
    #[must_use]
    pub fn stats(&self) -> Vec<(String, Stats)> {
        self.informers().iter().map(|informer| (informer.name(), informer.stats())).collect()
    }

    /// Each informer as it is shown to people, in the order of [`stats`](Self::stats).
    #[must_use]
    pub fn statuses(&self) -> Vec<InformerStatus> {
        self.informers().iter().map(|informer| informer.status()).collect()
    }

    fn informers(&self) -> Vec<Arc<dyn AnyInformer>> {
        self.inner.lock().informers.values().map(|entry| entry.informer.clone()).collect()
    }

    /// What is cached of a kind by the options: where, and what of it. In whichever form.
    ///
    /// # Errors
    /// As [`get_informer`](Self::get_informer).
    pub fn coverage<K: 'static>(&self, kind: &Kind<K>) -> Result<Vec<Coverage>, CacheError> {
        let id = Id::new(kind, self.inner.options.of(kind).parts)?;
        let coverage = |Part { namespaces, selectors, keep_managed_fields }| Coverage {
            namespaces,
            selectors,
            keep_managed_fields,
        };
        Ok(id.parts.into_iter().map(coverage).collect())
    }

    /// The informer that reads of a kind look at, in sync. With a namespace, only if that is cached.
    ///
    /// # Errors
    /// When the cache cannot tell.
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
        // The other reference would keep it from ending while this one is waited for.
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
    ) -> Result<Informer<K>, CacheError>
    where
        K: Resource + Send + Sync + 'static,
    {
        let id = Arc::new(Id::new(kind, resolved.parts.clone())?);
        let mut state = self.lock();
        let entry = self.entry(&mut state, kind, &id, resolved)?;
        entry.users += 1;
        entry.is_kept |= keep;
        let in_use = Use { cache: Arc::downgrade(self), id, gone: entry.gone.clone() };
        Ok(Informer { informer: typed(&*entry.informer), in_use: Arc::new(in_use) })
    }

    /// The informer that has what a read asks for, and whether the cache runs. Makes one if there is none and it may; what
    /// cannot be answered leaves nothing behind.
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
        // Where a read may not make an informer, it does not decide how long one stays either.
        let keep = !self.options.fails_on_missing;
        let entry = self.entry(&mut state, kind, &id, resolved)?;
        entry.is_read |= keep;
        let readable = Readable { id, informer: entry.informer.clone(), gone: entry.gone.clone() };
        if keep {
            state.read.push(readable.clone());
        }
        Ok((readable, running))
    }

    /// The entry of an informer, which is made if there is none.
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
        Ok(state.informers.get_mut(id).expect("it was there, or was just put there"))
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
            // Informers that were made together need not tell everything at the same moment.
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

    /// One user less.
    fn leave(&self, id: &Id, gone: &CancellationToken) {
        let mut state = self.lock();
        // What was removed has no users to count; another may have its place.
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
        // Ends its tasks, unless somebody still has it.
        drop(entry);
    }

    /// Informers are not kept for reads; gives those that nobody needs, whose tasks end with them.
    fn release<K: 'static>(&self, kind: &Kind<K>) -> Vec<Entry> {
        let mut state = self.lock();
        state.read.retain(|readable| !readable.id.is_of(kind));
        let released = state.informers.extract_if(.., |id, entry| {
            entry.is_read &= !id.is_of(kind);
            id.is_of(kind) && !entry.is_needed()
        });
        released.inspect(|(_, entry)| entry.gone.cancel()).map(|(_, entry)| entry).collect()
    }

    /// Forgets the informers of a kind in its form.
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

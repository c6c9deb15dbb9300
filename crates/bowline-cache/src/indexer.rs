//! The local store: objects by key and by index. Owns writes and their visibility; a [`Snapshot`] holds one state and
//! reads it.

mod entry;
mod index;
#[cfg(test)]
mod model;
mod order;
mod snapshot;
#[cfg(test)]
mod tests;
mod trie;

use std::fmt;
use std::hint;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use bowline_machinery::{LabelSelector, ObjectKey};

use self::entry::Hashing;
use self::index::Index;
pub use self::index::{IndexError, NAMESPACE_INDEX};
pub use self::snapshot::Snapshot;
use crate::object_key;

/// Objects of one kind, by key and by index. An informer fills one; it can also be used alone.
///
/// - Readers never wait, neither for writers nor for each other: each call reads one immutable state. Several calls may
///   read several states; for consistent reads, take a [`snapshot`](Self::snapshot).
/// - Writers wait for each other. The changes of one call become visible at once, objects and indexes together.
/// - Objects are returned in the `Arc` in which they are stored, never copied. Lists are ordered by key.
/// - An index is a function from an object to its values. It runs when the object is written, for the old and the new
///   object, while other writers wait. It must be deterministic and must not write to the indexer. If it panics, the
///   object has no value in that index, all else continues, and the first panic is logged.
///
/// ```
/// use bowline_cache::{Indexer, ObjectKey};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let pods = Indexer::<Pod>::new();
/// pods.add_index("node", |pod| pod.spec.iter().filter_map(|spec| spec.node_name.clone()).collect())?;
/// let mut pod = Pod::default();
/// pod.metadata.namespace = Some("web".to_owned());
/// pod.metadata.name = Some("a".to_owned());
/// pod.spec.get_or_insert_default().node_name = Some("n1".to_owned());
/// pods.add(pod);
///
/// assert!(pods.get(&ObjectKey::new("web", "a")).is_some());
/// assert_eq!(pods.by_index("node", "n1")?.len(), 1);
/// assert_eq!(pods.list_in("web").len(), 1);
/// # Ok::<(), bowline_cache::IndexError>(())
/// ```
pub struct Indexer<K> {
    current: ArcSwap<Snapshot<K>>,
    /// Held from reading the current state to publishing the next one.
    writing: Mutex<()>,
}

/// One change of a state.
pub(crate) enum Change<K> {
    /// Stores an object under a key. Readers find it under this key, independent of its metadata.
    Put(ObjectKey, Arc<K>),
    /// Removes the object with a key.
    Remove(ObjectKey),
}

impl<K: kube::Resource + Send + Sync + 'static> Indexer<K> {
    /// An empty indexer with the index [`NAMESPACE_INDEX`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_hashing(Hashing::new())
    }

    fn with_hashing(hashing: Hashing) -> Self {
        Self { current: ArcSwap::from_pointee(Snapshot::new(hashing)), writing: Mutex::new(()) }
    }

    /// The current state, for consistent reads.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<K> {
        Snapshot::clone(&self.current.load())
    }

    /// The object with a key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.current.load().get(key)
    }

    /// The object with a name in a namespace; the namespace is empty for cluster-scoped objects. Needs no `ObjectKey`.
    #[must_use]
    pub fn get_in(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.current.load().get_in(namespace, name)
    }

    /// Loads objects into the processor's cache before calls of [`get`](Self::get). A lookup waits for memory several
    /// times; here the waits of all keys overlap. It has no other effect, and pays off for ten or more keys at once.
    pub fn prefetch<'a>(&self, keys: impl IntoIterator<Item = &'a ObjectKey>) {
        let parts = keys.into_iter().map(|key| (key.namespace().unwrap_or_default(), key.name()));
        for object in self.current.load().get_all_in(&parts.collect::<Vec<_>>()).into_iter().flatten() {
            // `get` writes to the reference count, which is stored beside the object.
            hint::black_box(Arc::strong_count(object));
        }
    }

    /// All objects, ordered by key.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<K>> {
        self.current.load().list()
    }

    /// The objects in a namespace, ordered by key; the empty namespace has the cluster-scoped ones. The cost depends on
    /// the number of objects found.
    #[must_use]
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        self.current.load().list_in(namespace)
    }

    /// The objects with matching labels, in one namespace or (`None`) in all, ordered by key. This reads the labels of
    /// every object there; if that is too slow, add an index.
    #[must_use]
    pub fn list_matching(&self, namespace: Option<&str>, selector: &LabelSelector) -> Vec<Arc<K>> {
        self.current.load().list_matching(namespace, selector)
    }

    /// The keys of all objects, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.current.load().keys()
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.current.load().len()
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.current.load().is_empty()
    }

    /// The objects with a value in an index, ordered by key; empty for an unknown value.
    ///
    /// # Errors
    /// [`IndexError::Unknown`] if the index does not exist.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<K>>, IndexError> {
        self.current.load().by_index(name, value)
    }

    /// The keys of the objects with a value in an index, in order.
    ///
    /// # Errors
    /// [`IndexError::Unknown`] if the index does not exist.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, IndexError> {
        self.current.load().index_keys(name, value)
    }

    /// The values of an index that have at least one object, in order.
    ///
    /// # Errors
    /// [`IndexError::Unknown`] if the index does not exist.
    pub fn index_values(&self, name: &str) -> Result<Vec<String>, IndexError> {
        self.current.load().index_values(name)
    }

    /// The names of the indexes, in order.
    #[must_use]
    pub fn indexes(&self) -> Vec<String> {
        self.current.load().indexes()
    }

    /// Adds an index. Existing objects are in it when this returns. An object may have any number of values; duplicates
    /// count once.
    ///
    /// # Errors
    /// [`IndexError::Taken`] if the name is taken. Nothing is changed then.
    pub fn add_index(
        &self,
        name: impl Into<String>,
        function: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), IndexError> {
        let index = Index::new(name.into(), function);
        self.write(|next| next.add_index(index))
    }

    /// Stores an object under its key. Returns the previous one.
    pub fn add(&self, object: K) -> Option<Arc<K>> {
        self.apply([Change::Put(object_key(&object), Arc::new(object))]).pop().flatten()
    }

    /// Same as [`add`](Self::add), as in client-go: an object that does not exist is stored too. Versions are not
    /// compared.
    pub fn update(&self, object: K) -> Option<Arc<K>> {
        self.add(object)
    }

    /// Removes the object with a key. Returns it.
    pub fn delete(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.apply([Change::Remove(key.clone())]).pop().flatten()
    }

    /// Replaces all objects at once, for example to fill a cache before its informer starts. If two have the same key,
    /// the later one counts. Indexes and the collection's version stay.
    pub fn replace(&self, objects: Vec<K>) {
        let objects = objects.into_iter().map(|object| (object_key(&object), Arc::new(object)));
        self.write(|next| next.replace(objects));
    }

    /// Returns another indexer with the same indexes and these objects.
    #[must_use]
    pub fn with_objects(&self, objects: Vec<Arc<K>>) -> Self {
        let mut snapshot = self.snapshot();
        snapshot.replace(objects.into_iter().map(|object| (object_key(&*object), object)));
        Self { current: ArcSwap::from_pointee(snapshot), writing: Mutex::new(()) }
    }

    /// Returns another indexer with the same indexes and these changes: a new object, or `None` to remove one. It
    /// shares all else, so that it costs as much as the changes.
    #[must_use]
    pub fn with_changes(&self, changes: impl IntoIterator<Item = (ObjectKey, Option<Arc<K>>)>) -> Self {
        let mut snapshot = self.snapshot();
        for (key, object) in changes {
            snapshot.apply(match object {
                Some(object) => Change::Put(key, object),
                None => Change::Remove(key),
            });
        }
        Self { current: ArcSwap::from_pointee(snapshot), writing: Mutex::new(()) }
    }

    /// The version of the collection, if it was set. An informer does not set it: see
    /// [`SharedInformer::last_sync_resource_version`](crate::SharedInformer::last_sync_resource_version).
    #[must_use]
    pub fn resource_version(&self) -> Option<String> {
        self.current.load().resource_version()
    }

    /// Sets the version of the collection up to which all changes are written.
    pub fn set_resource_version(&self, version: Option<String>) {
        self.write(|next| next.set_resource_version(version));
    }

    /// Applies changes, which become visible together. Returns the previous object of each key. If the iterator panics,
    /// nothing is changed. Other writers wait meanwhile.
    pub(crate) fn apply(&self, changes: impl IntoIterator<Item = Change<K>>) -> Vec<Option<Arc<K>>> {
        self.write(|next| changes.into_iter().map(|change| next.apply(change)).collect())
    }

    /// Applies changes that depend on the present state, which become visible together. If `change` panics, nothing is
    /// changed. Other writers wait meanwhile.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Snapshot<K>) -> T) -> T {
        let (result, _previous) = {
            // The changes of a writer that panicked were never published.
            let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
            let mut next = self.snapshot();
            let result = change(&mut next);
            (result, self.current.swap(Arc::new(next)))
        };
        // Drop the previous state after the lock is released.
        result
    }
}

impl<K: kube::Resource + Send + Sync + 'static> Default for Indexer<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> fmt::Debug for Indexer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Indexer").field(&**self.current.load()).finish()
    }
}

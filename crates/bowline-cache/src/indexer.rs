//! The local store: objects by key and by the values that index functions give them. Owns what is visible when, and who
//! writes; what a state holds and how it is read is the snapshot's.

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

/// Objects of one kind, by key and by index; what an informer fills and everybody reads, and usable alone.
///
/// - Readers never wait, neither for writers nor for each other: each call reads an immutable state, and what it returns
///   is of one moment. Several calls may see several states; where they have to agree, take a
///   [`snapshot`](Self::snapshot).
/// - Writers wait for each other. What one call writes becomes visible at once, objects and indexes together.
/// - Objects come out as they went in, in an `Arc` and never copied, and lists are ordered by key.
/// - An index is a function from an object to its values, called when the object is written, for the old one and the new
///   one, and while the indexer is locked for writers: it has to give the same values each time, and must not write to the
///   indexer. If it panics, the object has no value in that index, everything else goes on, and the first time is logged.
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
    /// Held from reading the current state to publishing the next.
    writing: Mutex<()>,
}

/// One step from a state to the next.
pub(crate) enum Change<K> {
    /// The key has this object from now on. Readers find it under this key, whatever its metadata says.
    Put(ObjectKey, Arc<K>),
    /// The key has no object from now on.
    Remove(ObjectKey),
}

impl<K: kube::Resource + Send + Sync + 'static> Indexer<K> {
    /// An empty one, with the index [`NAMESPACE_INDEX`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_hashing(Hashing::new())
    }

    fn with_hashing(hashing: Hashing) -> Self {
        Self { current: ArcSwap::from_pointee(Snapshot::new(hashing)), writing: Mutex::new(()) }
    }

    /// The state of this moment, for reads that have to agree.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<K> {
        Snapshot::clone(&self.current.load())
    }

    /// The object with a key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.current.load().get(key)
    }

    /// The object with a name in a namespace, which is empty for what is cluster-scoped; for who has no key at hand.
    #[must_use]
    pub fn get_in(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.current.load().get_in(namespace, name)
    }

    /// Brings near what will be asked for soon: a look-up waits for memory several times, and here all wait together. It
    /// changes nothing but how long [`get`](Self::get) takes, and is worth it for some ten keys of a list that is worked
    /// through, not for one.
    pub fn prefetch<'a>(&self, keys: impl IntoIterator<Item = &'a ObjectKey>) {
        let parts = keys.into_iter().map(|key| (key.namespace().unwrap_or_default(), key.name()));
        for object in self.current.load().get_all_in(&parts.collect::<Vec<_>>()).into_iter().flatten() {
            // What `get` writes to lies with the object, in memory that nothing else has touched.
            hint::black_box(Arc::strong_count(object));
        }
    }

    /// All objects, ordered by key.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<K>> {
        self.current.load().list()
    }

    /// The objects in a namespace, ordered by key; in an empty one are those that are cluster-scoped. Its cost is that of
    /// the objects found.
    #[must_use]
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        self.current.load().list_in(namespace)
    }

    /// The objects whose labels a selector picks, in one namespace or (`None`) in all, ordered by key. Labels are looked
    /// at in place, those of every object of the namespace; where that is too many, add an index.
    #[must_use]
    pub fn list_matching(&self, namespace: Option<&str>, selector: &LabelSelector) -> Vec<Arc<K>> {
        self.current.load().list_matching(namespace, selector)
    }

    /// The keys of all objects, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.current.load().keys()
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.current.load().len()
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.current.load().is_empty()
    }

    /// The objects that an index gives a value, ordered by key; none for a value that no object has.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<K>>, IndexError> {
        self.current.load().by_index(name, value)
    }

    /// The keys of the objects that an index gives a value, in order.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, IndexError> {
        self.current.load().index_keys(name, value)
    }

    /// The values that an index gives at least one object, in order.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn index_values(&self, name: &str) -> Result<Vec<String>, IndexError> {
        self.current.load().index_values(name)
    }

    /// The names of the indexes, in order.
    #[must_use]
    pub fn indexes(&self) -> Vec<String> {
        self.current.load().indexes()
    }

    /// Adds an index, at any time: objects that are there already are in it when this returns. An object may have any
    /// number of values; one that is given twice counts once.
    ///
    /// # Errors
    /// If the name is taken; nothing has changed then.
    pub fn add_index(
        &self,
        name: impl Into<String>,
        function: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), IndexError> {
        let index = Index::new(name.into(), function);
        self.write(|next| next.add_index(index))
    }

    /// Stores an object under its key, and returns what was there before.
    pub fn add(&self, object: K) -> Option<Arc<K>> {
        self.apply([Change::Put(object_key(&object), Arc::new(object))]).pop().flatten()
    }

    /// The same as [`add`](Self::add), as in client-go: an object that is not there is stored too. Versions are not
    /// compared.
    pub fn update(&self, object: K) -> Option<Arc<K>> {
        self.add(object)
    }

    /// Forgets the object with a key, and returns it.
    pub fn delete(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.apply([Change::Remove(key.clone())]).pop().flatten()
    }

    /// Puts these objects in the place of all there are, at once: for a cache that is warm before an informer starts. Of
    /// two with one key the later is kept. Indexes and the collection's version stay.
    pub fn replace(&self, objects: Vec<K>) {
        let objects = objects.into_iter().map(|object| (object_key(&object), Arc::new(object)));
        self.write(|next| next.replace(objects));
    }

    /// Another one with the same indexes and other objects: what this one would be if it had them.
    #[must_use]
    pub fn with_objects(&self, objects: Vec<Arc<K>>) -> Self {
        let mut snapshot = self.snapshot();
        snapshot.replace(objects.into_iter().map(|object| (object_key(&*object), object)));
        Self { current: ArcSwap::from_pointee(snapshot), writing: Mutex::new(()) }
    }

    /// The version of the collection, if whoever fills this has noted one. An informer does not: see
    /// [`SharedInformer::last_sync_resource_version`](crate::SharedInformer::last_sync_resource_version).
    #[must_use]
    pub fn resource_version(&self) -> Option<String> {
        self.current.load().resource_version()
    }

    /// Notes the version of the collection up to which everything has been written.
    pub fn set_resource_version(&self, version: Option<String>) {
        self.write(|next| next.set_resource_version(version));
    }

    /// Makes changes, one after the other, which become visible at once, and returns for each the object that its key had
    /// before it. If the iterator panics, nothing has changed. It runs while other writers wait.
    pub(crate) fn apply(&self, changes: impl IntoIterator<Item = Change<K>>) -> Vec<Option<Arc<K>>> {
        self.write(|next| changes.into_iter().map(|change| next.apply(change)).collect())
    }

    /// Makes changes that depend on what is there, all of which become visible at once. If `change` panics, nothing has
    /// changed. It runs while other writers wait.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Snapshot<K>) -> T) -> T {
        let (result, _previous) = {
            // What a writer that panicked had begun was never published.
            let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
            let mut next = self.snapshot();
            let result = change(&mut next);
            (result, self.current.swap(Arc::new(next)))
        };
        // The lock is free again, and only now what nobody needs any more is dropped.
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

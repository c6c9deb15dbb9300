//! One state of an indexer: objects, indexes and the collection's version. Owns the reads and the changes of a state;
//! the indexer owns its visibility.

use std::collections::BTreeMap;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use bowline_machinery::{LabelSelector, ObjectKey};

use super::Change;
use super::entry::{Entry, Hashing};
use super::index::{Index, IndexError, NAMESPACE_INDEX};
use super::order::{first, sorted};
use super::trie::Trie;

/// The state of an [`Indexer`](crate::Indexer) at one moment, for consistent reads.
///
/// Creating and cloning one costs as much as cloning a few `Arc`s. It never changes, and keeps its objects in memory:
/// hold it only for one computation. Its methods are the read methods of the indexer, with the same contracts.
pub struct Snapshot<K> {
    hashing: Hashing,
    objects: Trie<Entry<K>>,
    /// The first one is the index by namespace.
    indexes: Arc<Vec<Index<K>>>,
    resource_version: Option<Arc<str>>,
}

impl<K> Snapshot<K> {
    pub(super) fn new(hashing: Hashing) -> Self {
        Self {
            hashing,
            objects: Trie::new(),
            indexes: Arc::new(vec![Index::by_namespace()]),
            resource_version: None,
        }
    }

    /// The object with a key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.get_in(key.namespace().unwrap_or_default(), key.name())
    }

    /// The object with a name in a namespace; the namespace is empty for cluster-scoped objects.
    #[must_use]
    pub fn get_in(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let hash = self.hashing.of_parts(namespace, name);
        self.objects.get(hash, |entry| entry.is(namespace, name)).map(|entry| Arc::clone(&entry.object))
    }

    /// The objects with these namespaces and names. Faster than one by one.
    pub(crate) fn get_all_in(&self, keys: &[(&str, &str)]) -> Vec<Option<&Arc<K>>> {
        let hashes: Vec<_> =
            keys.iter().map(|(namespace, name)| self.hashing.of_parts(namespace, name)).collect();
        let leaves = self.objects.leaves(&hashes).into_iter();
        let found = leaves.zip(&hashes).zip(keys).map(|((leaf, hash), (namespace, name))| {
            let mut same = leaf.iter().filter(|entry| entry.hash == *hash);
            same.find(|entry| entry.is(namespace, name)).map(|entry| &entry.object)
        });
        found.collect()
    }

    /// All objects, ordered by key.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<K>> {
        objects(self.objects.iter().collect())
    }

    /// The objects in a namespace, ordered by key; the empty namespace has the cluster-scoped ones.
    #[must_use]
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        objects(self.find_in(namespace))
    }

    /// The objects with matching labels, in one namespace or in all, ordered by key.
    #[must_use]
    pub fn list_matching(&self, namespace: Option<&str>, selector: &LabelSelector) -> Vec<Arc<K>>
    where
        K: kube::Resource,
    {
        objects(match namespace {
            Some(namespace) => {
                self.find_in(namespace).into_iter().filter(|entry| matches(entry, selector)).collect()
            }
            None => self.objects.iter().filter(|entry| matches(entry, selector)).collect(),
        })
    }

    /// The first `limit` objects in the order of keys, of those in a namespace (or all) that a label selector picks and to
    /// which each index gives its value. No more than `limit` entries are sorted.
    ///
    /// # Errors
    /// If there is no index of one of the names.
    pub(crate) fn select(
        &self,
        namespace: Option<&str>,
        selector: &LabelSelector,
        indexes: &[(String, String)],
        limit: Option<usize>,
    ) -> Result<Vec<Arc<K>>, IndexError>
    where
        K: kube::Resource,
    {
        let Some(((name, value), others)) = indexes.split_first() else {
            return Ok(match (limit, namespace) {
                (None, _) => self.list_matching(namespace, selector),
                (Some(limit), Some(namespace)) => {
                    let found = self.find_in(namespace).into_iter();
                    shared(first(found.filter(|entry| matches(entry, selector)), limit))
                }
                (Some(limit), None) => {
                    shared(first(self.objects.iter().filter(|entry| matches(entry, selector)), limit))
                }
            });
        };
        let found = self.find(name, value)?;
        let mut sets = Vec::with_capacity(others.len());
        for (name, value) in others {
            // Entries are compared by address: all of them are in this state's trie. The order of addresses stays here.
            let mut set: Vec<_> = self.find(name, value)?.into_iter().map(ptr::from_ref).collect();
            set.sort_unstable();
            sets.push(set);
        }
        let found = found.into_iter().filter(|entry| {
            namespace.is_none_or(|namespace| entry.key.namespace() == Some(namespace))
                && matches(entry, selector)
                && sets.iter().all(|set| set.binary_search(&ptr::from_ref(*entry)).is_ok())
        });
        Ok(match limit {
            Some(limit) => shared(first(found, limit)),
            None => objects(found.collect()),
        })
    }

    /// The keys of all objects, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<ObjectKey> {
        let mut keys: Vec<_> = self.iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys.into_iter().cloned().collect()
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The objects with a value in an index, ordered by key.
    ///
    /// # Errors
    /// [`IndexError::Unknown`] if the index does not exist.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<K>>, IndexError> {
        self.find(name, value).map(objects)
    }

    /// The keys of the objects with a value in an index, in order.
    ///
    /// # Errors
    /// [`IndexError::Unknown`] if the index does not exist.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, IndexError> {
        self.find(name, value).map(keys)
    }

    /// The values of an index that have at least one object, in order.
    ///
    /// # Errors
    /// [`IndexError::Unknown`] if the index does not exist.
    pub fn index_values(&self, name: &str) -> Result<Vec<String>, IndexError> {
        self.index(name).map(Index::values)
    }

    /// The names of the indexes, in order.
    #[must_use]
    pub fn indexes(&self) -> Vec<String> {
        let mut names: Vec<_> = self.indexes.iter().map(|index| index.name().to_owned()).collect();
        names.sort_unstable();
        names
    }

    /// The version of the collection, if it was set.
    #[must_use]
    pub fn resource_version(&self) -> Option<String> {
        self.resource_version.as_deref().map(str::to_owned)
    }

    /// Whether both have the same objects, without a change in between.
    pub(crate) fn has_objects_of(&self, other: &Self) -> bool {
        self.objects.is(&other.objects)
    }

    /// All objects. The order differs from run to run and must not become visible.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<K>)> {
        self.objects.iter().map(|entry| (&entry.key, &entry.object))
    }

    fn index(&self, name: &str) -> Result<&Index<K>, IndexError> {
        let unknown = || IndexError::Unknown { name: name.to_owned(), known: self.indexes() };
        self.indexes.iter().find(|index| index.name() == name).ok_or_else(unknown)
    }

    fn find(&self, name: &str, value: &str) -> Result<Vec<&Entry<K>>, IndexError> {
        if name == NAMESPACE_INDEX && !value.is_empty() {
            return Ok(self.find_in(value));
        }
        Ok(self.index(name)?.find(&self.hashing, &self.objects, value))
    }

    fn find_in(&self, namespace: &str) -> Vec<&Entry<K>> {
        // A full scan is cheaper than looking up one object in eight.
        let index = &self.indexes[0];
        if namespace.is_empty() || index.count(&self.hashing, namespace) > self.len() / 8 {
            let is_in = |entry: &&Entry<K>| entry.key.namespace().unwrap_or_default() == namespace;
            return self.objects.iter().filter(is_in).collect();
        }
        index.find(&self.hashing, &self.objects, namespace)
    }

    pub(super) fn set_resource_version(&mut self, version: Option<String>) {
        self.resource_version = version.map(Into::into);
    }

    pub(super) fn add_index(&mut self, mut index: Index<K>) -> Result<(), IndexError> {
        if self.index(index.name()).is_ok() {
            return Err(IndexError::Taken { name: index.name().to_owned() });
        }
        index.fill(&self.hashing, self.objects.iter());
        Arc::make_mut(&mut self.indexes).push(index);
        Ok(())
    }

    /// Applies one change. Returns the previous object of the key.
    pub(crate) fn apply(&mut self, change: Change<K>) -> Option<Arc<K>> {
        match change {
            Change::Put(key, object) => {
                let entry =
                    Entry { hash: self.hashing.of_key(&key), key: key.clone(), object: Arc::clone(&object) };
                let old = self.objects.insert(entry, |entry| entry.key == key).map(|entry| entry.object);
                if !old.as_ref().is_some_and(|old| Arc::ptr_eq(old, &object)) {
                    self.reindex(&key, old.as_deref(), Some(&object));
                }
                old
            }
            Change::Remove(key) => {
                let old = self.objects.remove(self.hashing.of_key(&key), |entry| entry.key == key)?.object;
                self.reindex(&key, Some(&old), None);
                Some(old)
            }
        }
    }

    /// Replaces all objects; if two have the same key, the later one counts.
    pub(super) fn replace(&mut self, objects: impl Iterator<Item = (ObjectKey, Arc<K>)>) {
        let objects: Vec<_> = objects.collect();
        if let Some(entries) = self.distinct(&objects) {
            self.objects = Trie::of_distinct(entries);
        } else {
            self.objects = Trie::new();
            for (key, object) in objects {
                let entry = Entry { hash: self.hashing.of_key(&key), key: key.clone(), object };
                self.objects.insert(entry, |entry| entry.key == key);
            }
        }
        self.fill_indexes();
    }

    /// Fills an empty state at once. Returns false, without a change, if two objects have the same key.
    pub(crate) fn fill(&mut self, objects: &[(ObjectKey, Arc<K>)]) -> bool {
        debug_assert!(self.is_empty(), "what is there would be forgotten");
        let Some(entries) = self.distinct(objects) else { return false };
        self.objects = Trie::of_distinct(entries);
        self.fill_indexes();
        true
    }

    /// The entries of the objects; `None` if two have the same key.
    fn distinct(&self, objects: &[(ObjectKey, Arc<K>)]) -> Option<Vec<Entry<K>>> {
        let entry = |(key, object): &(ObjectKey, Arc<K>)| Entry {
            hash: self.hashing.of_key(key),
            key: key.clone(),
            object: Arc::clone(object),
        };
        let entries: Vec<_> = objects.iter().map(entry).collect();
        let mut hashes: Vec<_> = entries.iter().map(|entry| entry.hash).collect();
        hashes.sort_unstable();
        // Different keys with equal hashes are rare; the caller's slow path handles them.
        hashes.is_sorted_by(|one, other| one < other).then_some(entries)
    }

    fn fill_indexes(&mut self) {
        let mut indexes: Vec<_> = self.indexes.iter().map(Index::emptied).collect();
        for index in &mut indexes {
            index.fill(&self.hashing, self.objects.iter());
        }
        self.indexes = Arc::new(indexes);
    }

    fn reindex(&mut self, key: &ObjectKey, old: Option<&K>, new: Option<&K>) {
        for place in 0..self.indexes.len() {
            if let Some(difference) = self.indexes[place].difference(key, old, new) {
                let index = &mut Arc::make_mut(&mut self.indexes)[place];
                index.apply(&self.hashing, &self.objects, key, difference);
            }
        }
    }
}

fn objects<K>(entries: Vec<&Entry<K>>) -> Vec<Arc<K>> {
    shared(sorted(entries))
}

fn shared<K>(entries: Vec<&Entry<K>>) -> Vec<Arc<K>> {
    entries.into_iter().map(|entry| Arc::clone(&entry.object)).collect()
}

fn matches<K: kube::Resource>(entry: &Entry<K>, selector: &LabelSelector) -> bool {
    match &entry.object.meta().labels {
        _ if selector.is_everything() => true,
        Some(labels) => selector.matches(labels),
        None => selector.matches(&BTreeMap::new()),
    }
}

fn keys<K>(entries: Vec<&Entry<K>>) -> Vec<ObjectKey> {
    sorted(entries).into_iter().map(|entry| entry.key.clone()).collect()
}

impl<K> Clone for Snapshot<K> {
    fn clone(&self) -> Self {
        Self {
            hashing: self.hashing.clone(),
            objects: self.objects.clone(),
            indexes: Arc::clone(&self.indexes),
            resource_version: self.resource_version.clone(),
        }
    }
}

impl<K> fmt::Debug for Snapshot<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("objects", &self.len())
            .field("indexes", &self.indexes())
            .field("resource_version", &self.resource_version)
            .finish_non_exhaustive()
    }
}

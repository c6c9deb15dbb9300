//! One state of an indexer: objects, indexes and the collection's version of one moment. Owns all ways of reading it and
//! the changes that lead to the next; when a state becomes visible is the indexer's.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bowline_machinery::{LabelSelector, ObjectKey};

use super::Change;
use super::entry::{Entry, Hashing};
use super::index::{Index, IndexError, NAMESPACE_INDEX};
use super::order::sorted;
use super::trie::Trie;

/// An [`Indexer`](crate::Indexer) as it was at one moment, for several reads that have to agree.
///
/// Taking and cloning one costs as much as cloning a few `Arc`s. It stays as it is whatever is written, and keeps the
/// objects it has in memory: hold it for the length of a computation. Its methods are the reading half of the indexer's,
/// with the same contracts.
pub struct Snapshot<K> {
    hashing: Hashing,
    objects: Trie<Entry<K>>,
    /// The one by namespace is the first.
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

    /// The object with a name in a namespace, which is empty for what is cluster-scoped.
    #[must_use]
    pub fn get_in(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let hash = self.hashing.of_parts(namespace, name);
        self.objects.get(hash, |entry| entry.is(namespace, name)).map(|entry| Arc::clone(&entry.object))
    }

    /// The objects with these names in namespaces, as by [`get_in`](Self::get_in): quicker than one by one.
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

    /// The objects in a namespace, ordered by key; in an empty one are those that are cluster-scoped.
    #[must_use]
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        objects(self.find_in(namespace))
    }

    /// The objects whose labels a selector picks, in one namespace or in all, ordered by key.
    #[must_use]
    pub fn list_matching(&self, namespace: Option<&str>, selector: &LabelSelector) -> Vec<Arc<K>>
    where
        K: kube::Resource,
    {
        let matches = |entry: &&Entry<K>| match &entry.object.meta().labels {
            Some(labels) => selector.matches(labels),
            None => selector.matches(&BTreeMap::new()),
        };
        objects(match namespace {
            Some(namespace) => self.find_in(namespace).into_iter().filter(matches).collect(),
            None => self.objects.iter().filter(matches).collect(),
        })
    }

    /// The keys of all objects, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<ObjectKey> {
        let mut keys: Vec<_> = self.iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys.into_iter().cloned().collect()
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The objects that an index gives a value, ordered by key.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<K>>, IndexError> {
        self.find(name, value).map(objects)
    }

    /// The keys of the objects that an index gives a value, in order.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, IndexError> {
        self.find(name, value).map(keys)
    }

    /// The values that an index gives at least one object, in order.
    ///
    /// # Errors
    /// If there is no such index.
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

    /// The version of the collection that was last seen, if one was.
    #[must_use]
    pub fn resource_version(&self) -> Option<String> {
        self.resource_version.as_deref().map(str::to_owned)
    }

    /// Whether it has the very objects that another one has, and nothing has changed in between.
    pub(crate) fn has_objects_of(&self, other: &Self) -> bool {
        self.objects.is(&other.objects)
    }

    /// All objects, in an order that differs from run to run and may not become visible.
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
        // A walk through everything is cheaper than looking up one object in eight.
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

    /// Makes one change, and returns the object that the key had before.
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

    /// Puts these objects in the place of all there are; of two with one key, the later.
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

    /// Puts objects into a state that has none, all at once. Whether that was done: not if two have the same key.
    pub(crate) fn fill(&mut self, objects: &[(ObjectKey, Arc<K>)]) -> bool {
        debug_assert!(self.is_empty(), "what is there would be forgotten");
        let Some(entries) = self.distinct(objects) else { return false };
        self.objects = Trie::of_distinct(entries);
        self.fill_indexes();
        true
    }

    /// The entries of objects, unless two have the same key.
    fn distinct(&self, objects: &[(ObjectKey, Arc<K>)]) -> Option<Vec<Entry<K>>> {
        let entry = |(key, object): &(ObjectKey, Arc<K>)| Entry {
            hash: self.hashing.of_key(key),
            key: key.clone(),
            object: Arc::clone(object),
        };
        let entries: Vec<_> = objects.iter().map(entry).collect();
        let mut hashes: Vec<_> = entries.iter().map(|entry| entry.hash).collect();
        hashes.sort_unstable();
        // Two keys with the same hash are as rare as they are allowed to be: whoever puts them in one by one sees.
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
    sorted(entries).into_iter().map(|entry| Arc::clone(&entry.object)).collect()
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

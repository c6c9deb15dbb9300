//! One index: the objects per value. Owns the buckets and the calls of index functions. The snapshot holds the objects;
//! a bucket refers to them by the hashes of their keys.
//!
//! Hashes, instead of keys or objects, make an entry eight bytes and keep copies cheap. An object that keeps its values
//! leaves the index unchanged. If two keys have the same 64 bits, their objects share an entry, and the index function
//! decides between them.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline_clock::{HashMap, HashState};
use bowline_machinery::ObjectKey;

use super::entry::{Entry, Hashing};
use super::trie::{Hashed, Trie};

/// Name of the index that every [`Indexer`](crate::Indexer) has: objects by namespace. Cluster-scoped objects have no
/// value in it.
pub const NAMESPACE_INDEX: &str = "namespace";

/// An index function: the values of one object.
type Function<K> = Box<dyn Fn(&K) -> Vec<String> + Send + Sync>;

/// An index that cannot be added or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The name is taken.
    #[error("index {name:?} exists already: choose another name")]
    Taken {
        /// The name.
        name: String,
    },
    /// The index does not exist.
    #[error("index {name:?} does not exist: add it with `InformerCache::add_index`, or use one of {}", known.join(", "))]
    Unknown {
        /// The requested name.
        name: String,
        /// The names of the existing indexes, in order.
        known: Vec<String>,
    },
}

/// One state of an index. A clone shares everything.
pub(super) struct Index<K> {
    definition: Arc<Definition<K>>,
    buckets: Trie<Bucket>,
}

struct Definition<K> {
    name: String,
    /// `None` for the index by namespace, whose values are in the keys.
    function: Option<Function<K>>,
    has_panicked: AtomicBool,
}

/// The objects with one value; never empty.
#[derive(Clone)]
struct Bucket {
    hash: u64,
    value: Arc<str>,
    members: Trie<KeyHash>,
}

/// Hash of an object's key; of two objects, if their hashes are equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct KeyHash(u64);

/// Change of an object's values.
pub(super) struct Difference {
    lost: Vec<String>,
    gained: Vec<String>,
}

impl<K> Index<K> {
    pub(super) fn by_namespace() -> Self {
        Self::with_function(NAMESPACE_INDEX.to_owned(), None)
    }

    pub(super) fn new(name: String, function: impl Fn(&K) -> Vec<String> + Send + Sync + 'static) -> Self {
        Self::with_function(name, Some(Box::new(function)))
    }

    fn with_function(name: String, function: Option<Function<K>>) -> Self {
        let definition = Definition { name, function, has_panicked: AtomicBool::new(false) };
        Self { definition: Arc::new(definition), buckets: Trie::new() }
    }

    /// The same index without objects.
    pub(super) fn emptied(&self) -> Self {
        Self { definition: Arc::clone(&self.definition), buckets: Trie::new() }
    }

    pub(super) fn name(&self) -> &str {
        &self.definition.name
    }

    /// All values with objects, in order.
    pub(super) fn values(&self) -> Vec<String> {
        let mut values: Vec<_> = self.buckets.iter().map(|bucket| bucket.value.to_string()).collect();
        values.sort_unstable();
        values
    }

    /// The number of objects with a value; slightly less if key hashes are equal.
    pub(super) fn count(&self, hashing: &Hashing, value: &str) -> usize {
        self.bucket(hashing, value).map_or(0, |bucket| bucket.members.len())
    }

    /// The objects with a value, unordered.
    pub(super) fn find<'a>(
        &self,
        hashing: &Hashing,
        objects: &'a Trie<Entry<K>>,
        value: &str,
    ) -> Vec<&'a Entry<K>> {
        let Some(bucket) = self.bucket(hashing, value) else { return Vec::new() };
        let hashes: Vec<_> = bucket.members.iter().map(|member| member.0).collect();
        let mut found = Vec::with_capacity(hashes.len());
        for (leaf, hash) in objects.leaves(&hashes).into_iter().zip(hashes) {
            let before = found.len();
            found.extend(leaf.iter().filter(|entry| entry.hash == hash));
            if found.len() > before + 1 {
                let several = found.split_off(before);
                found.extend(several.into_iter().filter(|entry| self.has(entry, value)));
            }
        }
        found
    }

    fn bucket(&self, hashing: &Hashing, value: &str) -> Option<&Bucket> {
        self.buckets.get(hashing.of_value(value), |bucket| &*bucket.value == value)
    }

    /// The change of this index when an object changes; `None` if there is none.
    pub(super) fn difference(&self, key: &ObjectKey, old: Option<&K>, new: Option<&K>) -> Option<Difference> {
        if self.definition.function.is_none() && old.is_some() && new.is_some() {
            return None; // The namespace is part of the key.
        }
        let mut lost = old.map(|old| self.values_of(key, old)).unwrap_or_default();
        let mut gained = new.map(|new| self.values_of(key, new)).unwrap_or_default();
        if lost == gained {
            return None;
        }
        let before = lost.clone();
        lost.retain(|value| gained.binary_search(value).is_err());
        gained.retain(|value| before.binary_search(value).is_err());
        Some(Difference { lost, gained })
    }

    /// Updates the index to `objects`, in which the object of `key` has changed.
    pub(super) fn apply(
        &mut self,
        hashing: &Hashing,
        objects: &Trie<Entry<K>>,
        key: &ObjectKey,
        difference: Difference,
    ) {
        let member = KeyHash(hashing.of_key(key));
        for value in difference.gained {
            self.enter(hashing, value, member);
        }
        for value in difference.lost {
            let is_shared = objects.at(member.0).any(|other| other.key != *key && self.has(other, &value));
            if !is_shared {
                self.leave(hashing, &value, member);
            }
        }
    }

    /// Fills an empty index at once: adding objects one by one would copy nodes for each.
    pub(super) fn fill<'a>(&mut self, hashing: &Hashing, entries: impl Iterator<Item = &'a Entry<K>>)
    where
        K: 'a,
    {
        debug_assert!(self.buckets.is_empty(), "what is there would be forgotten");
        let mut members = HashMap::<Cow<'_, str>, Vec<KeyHash>>::with_hasher(HashState::for_lookups());
        for entry in entries {
            if self.definition.function.is_none() {
                if let Some(namespace) = entry.key.namespace() {
                    members.entry(namespace.into()).or_default().push(KeyHash(entry.hash));
                }
                continue;
            }
            for value in self.values_of(&entry.key, &entry.object) {
                members.entry(value.into()).or_default().push(KeyHash(entry.hash));
            }
        }
        let bucket = |(value, mut members): (Cow<'_, str>, Vec<KeyHash>)| {
            members.sort_unstable();
            members.dedup();
            Bucket {
                hash: hashing.of_value(&value),
                value: value.into(),
                members: Trie::of_distinct(members),
            }
        };
        self.buckets = Trie::of_distinct(members.into_iter().map(bucket).collect());
    }

    fn enter(&mut self, hashing: &Hashing, value: String, member: KeyHash) {
        let hash = hashing.of_value(&value);
        if let Some(bucket) = self.buckets.get_mut(hash, |bucket| *bucket.value == *value) {
            bucket.members.insert(member, |_| true);
        } else {
            let bucket = Bucket { hash, value: value.into(), members: Trie::of_distinct(vec![member]) };
            self.buckets.insert(bucket, |_| false);
        }
    }

    fn leave(&mut self, hashing: &Hashing, value: &str, member: KeyHash) {
        let hash = hashing.of_value(value);
        let is_it = |bucket: &Bucket| &*bucket.value == value;
        if let Some(bucket) = self.buckets.get_mut(hash, is_it) {
            bucket.members.remove(member.0, |_| true);
            if bucket.members.is_empty() {
                self.buckets.remove(hash, is_it);
            }
        }
    }

    fn has(&self, entry: &Entry<K>, value: &str) -> bool {
        self.values_of(&entry.key, &entry.object).binary_search_by(|one| one.as_str().cmp(value)).is_ok()
    }

    /// The values of an object, in order; none if the function panics.
    fn values_of(&self, key: &ObjectKey, object: &K) -> Vec<String> {
        let Some(function) = &self.definition.function else {
            return key.namespace().map(str::to_owned).into_iter().collect();
        };
        // Unwind safe: the function has only a shared reference, and any interior state is its own.
        if let Ok(mut values) = catch_unwind(AssertUnwindSafe(|| function(object))) {
            values.sort_unstable();
            return values;
        }
        if !self.definition.has_panicked.swap(true, Ordering::Relaxed) {
            tracing::error!(
                index = self.name(),
                object = %key,
                "an index function panicked: the object has no value in this index; further panics are not logged"
            );
        }
        Vec::new()
    }
}

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        Self { definition: Arc::clone(&self.definition), buckets: self.buckets.clone() }
    }
}

impl Hashed for Bucket {
    const LEAF: usize = 8;

    fn hash(&self) -> u64 {
        self.hash
    }
}

impl Hashed for KeyHash {
    // Copied by the block.
    const LEAF: usize = 48;

    fn hash(&self) -> u64 {
        self.0
    }
}

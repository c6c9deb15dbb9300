//! Entries of the object trie, and the hashes of keys and index values.

use std::hash::BuildHasher;
use std::sync::Arc;

use bowline_clock::HashState;
use bowline_machinery::ObjectKey;

use super::trie::Hashed;

/// An object under its key. The hash is stored: it distinguishes most keys without a comparison, and indexes refer to
/// the object by it.
pub(super) struct Entry<K> {
    pub(super) hash: u64,
    pub(super) key: ObjectKey,
    pub(super) object: Arc<K>,
}

impl<K> Entry<K> {
    #[inline]
    pub(super) fn is(&self, namespace: &str, name: &str) -> bool {
        self.key.name() == name && self.key.namespace().unwrap_or_default() == namespace
    }
}

impl<K> Clone for Entry<K> {
    fn clone(&self) -> Self {
        Self { hash: self.hash, key: self.key.clone(), object: Arc::clone(&self.object) }
    }
}

impl<K> Hashed for Entry<K> {
    const LEAF: usize = 12;

    #[inline]
    fn hash(&self) -> u64 {
        self.hash
    }
}

/// Hash function of one indexer.
#[derive(Clone)]
pub(super) struct Hashing {
    state: HashState,
    /// Bits of a hash that are used. Few bits let tests produce collisions.
    #[cfg(test)]
    kept: u64,
}

impl Hashing {
    pub(super) fn new() -> Self {
        Self {
            // All results of the indexer are sorted, so the order of hashes is never visible.
            state: HashState::for_lookups(),
            #[cfg(test)]
            kept: u64::MAX,
        }
    }

    #[cfg(test)]
    pub(super) fn keeping(kept: u64) -> Self {
        Self { kept, ..Self::new() }
    }

    pub(super) fn of_key(&self, key: &ObjectKey) -> u64 {
        self.of_parts(key.namespace().unwrap_or_default(), key.name())
    }

    #[inline]
    pub(super) fn of_parts(&self, namespace: &str, name: &str) -> u64 {
        self.cut(self.state.hash_one((namespace, name)))
    }

    pub(super) fn of_value(&self, value: &str) -> u64 {
        self.cut(self.state.hash_one(value))
    }

    #[cfg(test)]
    fn cut(&self, hash: u64) -> u64 {
        hash & self.kept
    }

    #[cfg(not(test))]
    #[inline]
    #[expect(clippy::unused_self, reason = "it is used in tests")]
    fn cut(&self, hash: u64) -> u64 {
        hash
    }
}

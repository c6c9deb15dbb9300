//! Attempts per key, shared by the limiters that count per key.

use std::hash::{BuildHasher, Hash};

use bowline_clock::HashState;
use hashbrown::{HashTable, hash_table};

use crate::arena::{Arena, Slot};
use crate::hash::{fold, spread};

/// Keys are contiguous in an arena; the table holds only their hashes and slots. A million keys that fail for the first
/// time are written one after the other instead of all over a large table, and are not read when it grows.
#[derive(Debug)]
pub(super) struct Tries<K> {
    counted: Arena<Counted<K>>,
    table: HashTable<(u32, Slot)>,
    hash: HashState,
}

#[derive(Debug)]
struct Counted<K> {
    key: K,
    tries: u32,
}

impl<K> Default for Tries<K> {
    fn default() -> Self {
        Self { counted: Arena::default(), table: HashTable::new(), hash: HashState::for_lookups() }
    }
}

impl<K: Eq + Hash + Clone> Tries<K> {
    /// Counts one more attempt; returns the number before it.
    pub(super) fn count(&mut self, key: &K) -> u32 {
        let hash = fold(self.hash.hash_one(key));
        let counted = &self.counted;
        let found = self.table.entry(
            spread(hash),
            |(other, slot)| *other == hash && counted[*slot].key == *key,
            |(other, _)| spread(*other),
        );
        match found {
            hash_table::Entry::Occupied(found) => {
                let (_, slot) = *found.get();
                let tries = &mut self.counted[slot].tries;
                let before = *tries;
                *tries = before.saturating_add(1);
                before
            }
            hash_table::Entry::Vacant(vacant) => {
                let slot = self.counted.insert(Counted { key: key.clone(), tries: 1 });
                vacant.insert((hash, slot));
                0
            }
        }
    }

    pub(super) fn forget(&mut self, key: &K) {
        let hash = fold(self.hash.hash_one(key));
        let counted = &self.counted;
        let is_key = |(other, slot): &(u32, Slot)| *other == hash && counted[*slot].key == *key;
        if let Ok(found) = self.table.find_entry(spread(hash), is_key) {
            let ((_, slot), _) = found.remove();
            self.counted.free(slot);
        }
        if self.counted.is_empty() {
            // Frees the memory of a burst of failures.
            self.counted = Arena::default();
            self.table = HashTable::new();
        }
    }

    pub(super) fn get(&self, key: &K) -> u32 {
        let hash = fold(self.hash.hash_one(key));
        let is_key = |(other, slot): &(u32, Slot)| *other == hash && self.counted[*slot].key == *key;
        self.table.find(spread(hash), is_key).map_or(0, |(_, slot)| self.counted[*slot].tries)
    }
}

//! How often each key was tried: what the limiters that count per key share.

use std::hash::{BuildHasher, Hash};

use bowline_clock::HashState;
use hashbrown::{HashTable, hash_table};
use slab::Slab;

use crate::hash::{fold, spread};
use crate::list::Slot;

/// Keys lie side by side in a slab, and the table holds only their numbers: a million keys that fail for the
/// first time are written one after the other instead of all over a large table.
#[derive(Debug)]
pub(super) struct Tries<K> {
    counted: Slab<Counted<K>>,
    table: HashTable<Slot>,
    hash: HashState,
}

#[derive(Debug)]
struct Counted<K> {
    key: K,
    hash: u32,
    tries: u32,
}

impl<K> Default for Tries<K> {
    fn default() -> Self {
        Self { counted: Slab::new(), table: HashTable::new(), hash: HashState::for_lookups() }
    }
}

impl<K: Eq + Hash + Clone> Tries<K> {
    /// Counts one more; how many there were before.
    pub(super) fn count(&mut self, key: &K) -> u32 {
        let hash = fold(self.hash.hash_one(key));
        let counted = &self.counted;
        let found = self.table.entry(
            spread(hash),
            |slot| counted[slot.index()].key == *key,
            |slot| spread(counted[slot.index()].hash),
        );
        match found {
            hash_table::Entry::Occupied(found) => {
                let tries = &mut self.counted[found.get().index()].tries;
                let before = *tries;
                *tries = before.saturating_add(1);
                before
            }
            hash_table::Entry::Vacant(vacant) => {
                vacant.insert(Slot::new(self.counted.insert(Counted { key: key.clone(), hash, tries: 1 })));
                0
            }
        }
    }

    pub(super) fn forget(&mut self, key: &K) {
        let hash = fold(self.hash.hash_one(key));
        let counted = &self.counted;
        if let Ok(found) = self.table.find_entry(spread(hash), |slot| counted[slot.index()].key == *key) {
            let (slot, _) = found.remove();
            self.counted.remove(slot.index());
        }
        if self.counted.is_empty() {
            // Gives back what a burst of failures took.
            self.counted.shrink_to_fit();
            self.table.shrink_to(0, |_| 0);
        }
    }

    pub(super) fn get(&self, key: &K) -> u32 {
        let hash = fold(self.hash.hash_one(key));
        let found = self.table.find(spread(hash), |slot| self.counted[slot.index()].key == *key);
        found.map_or(0, |slot| self.counted[slot.index()].tries)
    }
}

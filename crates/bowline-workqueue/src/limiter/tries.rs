//! How often each key was tried: what the limiters that count per key share.

use std::hash::{BuildHasher, Hash};

use bowline_clock::HashState;
use hashbrown::{HashTable, hash_table};

use crate::arena::{Arena, Slot};
use crate::hash::{fold, spread};

/// Keys lie side by side in an arena, and the table holds only their numbers: a million keys that fail for the
/// first time are written one after the other instead of all over a large table.
#[derive(Debug)]
pub(super) struct Tries<K> {
    counted: Arena<Counted<K>>,
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
        Self { counted: Arena::default(), table: HashTable::new(), hash: HashState::for_lookups() }
    }
}

impl<K: Eq + Hash + Clone> Tries<K> {
    /// Counts one more; how many there were before.
    pub(super) fn count(&mut self, key: &K) -> u32 {
        let hash = fold(self.hash.hash_one(key));
        let counted = &self.counted;
        let found = self.table.entry(
            spread(hash),
            |slot| counted[*slot].key == *key,
            |slot| spread(counted[*slot].hash),
        );
        match found {
            hash_table::Entry::Occupied(found) => {
                let tries = &mut self.counted[*found.get()].tries;
                let before = *tries;
                *tries = before.saturating_add(1);
                before
            }
            hash_table::Entry::Vacant(vacant) => {
                vacant.insert(self.counted.insert(Counted { key: key.clone(), hash, tries: 1 }));
                0
            }
        }
    }

    pub(super) fn forget(&mut self, key: &K) {
        let hash = fold(self.hash.hash_one(key));
        let counted = &self.counted;
        if let Ok(found) = self.table.find_entry(spread(hash), |slot| counted[*slot].key == *key) {
            let (slot, _) = found.remove();
            self.counted.free(slot);
        }
        if self.counted.is_empty() {
            // Gives back what a burst of failures took.
            self.counted = Arena::default();
            self.table = HashTable::new();
        }
    }

    pub(super) fn get(&self, key: &K) -> u32 {
        let hash = fold(self.hash.hash_one(key));
        let found = self.table.find(spread(hash), |slot| self.counted[*slot].key == *key);
        found.map_or(0, |slot| self.counted[*slot].tries)
    }
}

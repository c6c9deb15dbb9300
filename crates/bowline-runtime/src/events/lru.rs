//! A map that drops its least recently used entry.

use std::collections::BTreeMap;
use std::num::NonZero;

use bowline_clock::{HashMap, HashState};

use super::digest::Digest;

/// A map from digests with bounded capacity.
pub(super) struct Lru<V> {
    capacity: NonZero<usize>,
    entries: HashMap<Digest, Slot<V>>,
    /// Keys by time of last use.
    order: BTreeMap<u64, Digest>,
    next: u64,
}

struct Slot<V> {
    used: u64,
    value: V,
}

impl<V> Lru<V> {
    pub(super) fn new(capacity: NonZero<usize>, state: HashState) -> Self {
        Self { capacity, entries: HashMap::with_hasher(state), order: BTreeMap::new(), next: 0 }
    }

    /// The value, marked as most recently used.
    pub(super) fn get(&mut self, key: Digest) -> Option<&mut V> {
        let slot = self.entries.get_mut(&key)?;
        self.order.remove(&slot.used);
        slot.used = self.next;
        self.order.insert(self.next, key);
        self.next += 1;
        Some(&mut slot.value)
    }

    /// The value, without marking it as used.
    pub(super) fn peek(&mut self, key: Digest) -> Option<&mut V> {
        self.entries.get_mut(&key).map(|slot| &mut slot.value)
    }

    /// Inserts a value. Returns the value that was dropped for it.
    pub(super) fn insert(&mut self, key: Digest, value: V) -> Option<V> {
        let gone = self.remove(key);
        debug_assert!(gone.is_none(), "existing values are changed in place");
        let evicted = if self.entries.len() >= self.capacity.get() {
            self.order.pop_first().and_then(|(_, key)| self.entries.remove(&key))
        } else {
            None
        };
        self.order.insert(self.next, key);
        self.entries.insert(key, Slot { used: self.next, value });
        self.next += 1;
        evicted.map(|slot| slot.value)
    }

    pub(super) fn remove(&mut self, key: Digest) -> Option<V> {
        let slot = self.entries.remove(&key)?;
        self.order.remove(&slot.used);
        Some(slot.value)
    }

    /// The keys, least recently used first.
    pub(super) fn keys(&self) -> Vec<Digest> {
        self.order.values().copied().collect()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use bowline_clock::Rng;

    use super::super::digest::Digester;
    use super::*;

    #[test]
    fn the_least_recently_used_entry_is_dropped_first() {
        let rng = Rng::seeded(0);
        let digester = Digester::new(&rng);
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|text| digester.digest(text));
        let mut lru = Lru::new(NonZero::new(2).unwrap(), rng.hash_state());
        assert_eq!(lru.insert(a, 1), None);
        assert_eq!(lru.insert(b, 2), None);
        assert_eq!(lru.get(a), Some(&mut 1));
        assert_eq!(lru.peek(b), Some(&mut 2), "peek does not mark it as used");
        assert_eq!(lru.insert(c, 3), Some(2));
        assert_eq!(lru.get(b), None);
        assert_eq!(lru.remove(a), Some(1));
        assert_eq!(lru.insert(d, 4), None);
        assert_eq!(lru.keys(), [c, d]);
        assert_eq!((lru.len(), lru.order.len()), (2, 2));
    }
}

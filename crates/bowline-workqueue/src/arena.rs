//! Values in numbered slots: allocated together, accessed by number, freed one by one.

use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// The number of a slot in four bytes, also as an `Option`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(NonZeroU32);

impl Slot {
    /// # Panics
    /// Beyond four billion slots, which would need hundreds of gigabytes.
    fn new(index: usize) -> Self {
        let number = u32::try_from(index).ok().and_then(|index| NonZeroU32::MIN.checked_add(index));
        Self(number.expect("a queue holds fewer than four billion keys"))
    }

    pub(crate) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Unlike in the `slab` crate, slot numbers are typed and take four bytes, and freeing drops a value in place: values
/// are large here, and moving one out would be most of the cost of freeing.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    cells: Vec<Cell<T>>,
    /// The first of the free cells, which are linked.
    free: Option<Slot>,
    len: usize,
}

#[derive(Debug)]
enum Cell<T> {
    Free { next: Option<Slot> },
    Used(T),
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { cells: Vec::new(), free: None, len: 0 }
    }
}

impl<T> Arena<T> {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Maximum number of slots in use at once, since creation or [`clear`](Self::clear).
    pub(crate) fn used(&self) -> usize {
        self.cells.len()
    }

    /// Drops all values, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.cells.clear();
        (self.free, self.len) = (None, 0);
    }

    #[inline(always)]
    pub(crate) fn capacity(&self) -> usize {
        self.cells.capacity()
    }

    #[inline(always)]
    pub(crate) fn insert(&mut self, value: T) -> Slot {
        self.len += 1;
        let Some(slot) = self.free else {
            self.cells.push(Cell::Used(value));
            return Slot::new(self.cells.len() - 1);
        };
        let cell = &mut self.cells[slot.index()];
        // Assigned where the cell is known to be free: otherwise the compiler adds a drop of the old value.
        match cell {
            Cell::Free { next } => {
                self.free = *next;
                *cell = Cell::Used(value);
            }
            Cell::Used(_) => unreachable!("a free slot is not in use"),
        }
        slot
    }

    /// Drops the value of a used slot.
    #[inline(always)]
    pub(crate) fn free(&mut self, slot: Slot) {
        self.cells[slot.index()] = Cell::Free { next: self.free.replace(slot) };
        self.len -= 1;
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        match self.cells.get(slot.index()) {
            Some(Cell::Used(value)) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        self.cells.iter().enumerate().filter_map(|(index, cell)| match cell {
            Cell::Used(value) => Some((Slot::new(index), value)),
            Cell::Free { .. } => None,
        })
    }
}

impl<T> Index<Slot> for Arena<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, slot: Slot) -> &T {
        match &self.cells[slot.index()] {
            Cell::Used(value) => value,
            Cell::Free { .. } => unreachable!("a slot is not used after it was freed"),
        }
    }
}

impl<T> IndexMut<Slot> for Arena<T> {
    #[inline(always)]
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        match &mut self.cells[slot.index()] {
            Cell::Used(value) => value,
            Cell::Free { .. } => unreachable!("a slot is not used after it was freed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_slots_are_used_again_before_new_ones() {
        let mut arena = Arena::default();
        let slots: Vec<_> = (0..4).map(|value| arena.insert(value)).collect();
        arena.free(slots[1]);
        arena.free(slots[3]);
        assert_eq!((arena.get(slots[1]), arena.get(slots[2])), (None, Some(&2)));
        let again: Vec<_> = (10..13).map(|value| arena.insert(value)).collect();
        assert_eq!(again[..2], [slots[3], slots[1]]);
        assert_eq!(arena.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [0, 11, 2, 10, 12]);
    }

    #[test]
    fn a_freed_value_is_dropped_at_once() {
        let value = std::sync::Arc::new(());
        let mut arena = Arena::default();
        let slot = arena.insert(value.clone());
        arena.free(slot);
        assert_eq!(std::sync::Arc::strong_count(&value), 1);
        assert!(arena.is_empty());
    }
}

//! All table slots of a store, accessible without a lock.

use std::sync::OnceLock;

use crate::table_slot::TableSlot;

/// A list that only grows, in segments of 1, 2, 4... slots, so that a slot never moves and readers need no lock.
pub(crate) struct TableSlots<M> {
    segments: [OnceLock<Room<M>>; 32],
}

type Room<M> = Box<[OnceLock<TableSlot<M>>]>;

impl<M> TableSlots<M> {
    pub(crate) fn new() -> Self {
        Self { segments: std::array::from_fn(|_| OnceLock::new()) }
    }

    pub(crate) fn get(&self, index: u32) -> Option<&TableSlot<M>> {
        let (segment, offset) = locate(index)?;
        self.segments[segment].get()?.get(offset)?.get()
    }

    /// Stores a slot at a free index.
    pub(crate) fn set(&self, index: u32, slot: TableSlot<M>) {
        if let Some((segment, offset)) = locate(index) {
            let segment = self.segments[segment]
                .get_or_init(|| (0..1_usize << segment).map(|_| OnceLock::new()).collect());
            segment[offset].get_or_init(|| slot);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &TableSlot<M>> {
        self.segments.iter().filter_map(OnceLock::get).flatten().filter_map(OnceLock::get)
    }
}

/// Segment `n` begins with index `2^n - 1`. The last index has no segment.
fn locate(index: u32) -> Option<(usize, usize)> {
    let number = index.checked_add(1)?;
    let segment = number.ilog2();
    Some((segment as usize, (number - (1 << segment)) as usize))
}

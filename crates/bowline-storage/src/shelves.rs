//! All shelves of a store, found without a lock.

use std::sync::OnceLock;

use crate::shelf::Shelf;

/// A list that only grows, in rooms of 1, 2, 4... shelves, so that a shelf never moves and a reader needs no lock.
pub(crate) struct Shelves<M> {
    rooms: [OnceLock<Room<M>>; 32],
}

type Room<M> = Box<[OnceLock<Shelf<M>>]>;

impl<M> Shelves<M> {
    pub(crate) fn new() -> Self {
        Self { rooms: std::array::from_fn(|_| OnceLock::new()) }
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Shelf<M>> {
        let (room, place) = locate(index)?;
        self.rooms[room].get()?.get(place)?.get()
    }

    /// Puts a shelf at a free place.
    pub(crate) fn set(&self, index: u32, shelf: Shelf<M>) {
        if let Some((room, place)) = locate(index) {
            let room =
                self.rooms[room].get_or_init(|| (0..1_usize << room).map(|_| OnceLock::new()).collect());
            room[place].get_or_init(|| shelf);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Shelf<M>> {
        self.rooms.iter().filter_map(OnceLock::get).flatten().filter_map(OnceLock::get)
    }
}

/// Room `n` begins with index `2^n - 1`. There is no room for the last index.
fn locate(index: u32) -> Option<(usize, usize)> {
    let number = index.checked_add(1)?;
    let room = number.ilog2();
    Some((room as usize, (number - (1 << room)) as usize))
}

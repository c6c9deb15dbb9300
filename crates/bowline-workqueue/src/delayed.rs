//! Entries that wait for their time, earliest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bowline_clock::Instant;

use crate::arena::{Arena, Slot};
use crate::machine::{Appointment, Entry, Place};

/// This many outdated records are tolerated before the heap is swept.
const SLACK: usize = 64;

/// A heap of records. A record holds as long as its entry keeps that very appointment; others are outdated, and are
/// thrown away when they come up, or when they outnumber the ones that hold.
#[derive(Debug, Default)]
pub(crate) struct Delayed {
    heap: BinaryHeap<Reverse<Record>>,
    /// Entries that wait, each of which has one record that holds.
    len: usize,
    next: u64,
}

/// Ordered by time, then by when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    due: Instant,
    number: u64,
    slot: Slot,
}

impl Record {
    fn holds<K, P>(self, entries: &Arena<Entry<K, P>>) -> bool {
        let place = entries.get(self.slot).map(|entry| entry.place);
        matches!(place, Some(Place::Delayed(kept)) if kept == Appointment::new(self.due, self.number))
    }
}

impl Delayed {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.heap.capacity()
    }

    #[cfg(test)]
    pub(crate) fn records(&self) -> usize {
        self.heap.len()
    }

    /// Makes an appointment for an entry, which is to be put in its place.
    pub(crate) fn insert(&mut self, slot: Slot, due: Instant) -> Appointment {
        let number = self.next;
        self.next += 1;
        self.len += 1;
        self.heap.push(Reverse(Record { due, number, slot }));
        Appointment::new(due, number)
    }

    /// An entry is about to leave its place; its record becomes outdated.
    pub(crate) fn remove<K, P>(&mut self, entries: &Arena<Entry<K, P>>) {
        self.len -= 1;
        if self.heap.len() > 2 * self.len + SLACK {
            self.heap.retain(|Reverse(record)| record.holds(entries));
        }
    }

    /// Takes out the earliest entry whose time has come, and tells when that was; it must leave its place before the
    /// next call.
    pub(crate) fn pop_due<K, P>(
        &mut self,
        entries: &Arena<Entry<K, P>>,
        now: Instant,
    ) -> Option<(Slot, Instant)> {
        while let Some(Reverse(record)) = self.heap.peek().copied() {
            let holds = record.holds(entries);
            if holds && record.due > now {
                return None;
            }
            self.heap.pop();
            if holds {
                self.len -= 1;
                return Some((record.slot, record.due));
            }
        }
        None
    }

    /// Forgets every entry.
    pub(crate) fn clear(&mut self) {
        *self = Self { next: self.next, ..Self::default() };
    }

    pub(crate) fn earliest<K, P>(&mut self, entries: &Arena<Entry<K, P>>) -> Option<Instant> {
        loop {
            let Reverse(record) = *self.heap.peek()?;
            if record.holds(entries) {
                return Some(record.due);
            }
            self.heap.pop();
        }
    }
}

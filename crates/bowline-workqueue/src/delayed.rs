//! Entries that wait for their time, earliest first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use bowline_clock::Instant;

use crate::arena::{Arena, Slot};
use crate::machine::{Appointment, Entry, Place};

/// This many outdated records are tolerated before the heap is swept.
const SLACK: usize = 64;

/// Records in order. A record holds as long as its entry keeps that very appointment; others are outdated, and are
/// thrown away when they come up, or when they outnumber the ones that hold.
///
/// A record that is due after all that came before it goes to the end of the run, any other into the heap. Most delays
/// of a queue are the same (the first retry, the resync), so most records are written and read in order.
#[derive(Debug, Default)]
pub(crate) struct Delayed {
    run: VecDeque<Record>,
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
        self.run.capacity() + self.heap.capacity()
    }

    pub(crate) fn records(&self) -> usize {
        self.run.len() + self.heap.len()
    }

    /// Makes an appointment for an entry, which is to be put in its place.
    pub(crate) fn insert(&mut self, slot: Slot, due: Instant) -> Appointment {
        let number = self.next;
        self.next += 1;
        self.len += 1;
        let record = Record { due, number, slot };
        if self.run.back().is_none_or(|last| *last < record) {
            self.run.push_back(record);
        } else {
            self.heap.push(Reverse(record));
        }
        Appointment::new(due, number)
    }

    /// An entry is about to leave its place; its record becomes outdated.
    pub(crate) fn remove<K, P>(&mut self, entries: &Arena<Entry<K, P>>) {
        self.len -= 1;
        if self.records() > 2 * self.len + SLACK {
            self.run.retain(|record| record.holds(entries));
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
        while let Some(record) = self.first() {
            let holds = record.holds(entries);
            if holds && record.due > now {
                return None;
            }
            self.remove_first();
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
            let record = self.first()?;
            if record.holds(entries) {
                return Some(record.due);
            }
            self.remove_first();
        }
    }

    fn first(&self) -> Option<Record> {
        let heap = self.heap.peek().map(|Reverse(record)| *record);
        match self.run.front() {
            Some(run) => Some(heap.map_or(*run, |heap| heap.min(*run))),
            None => heap,
        }
    }

    fn remove_first(&mut self) {
        let run = self.run.front();
        if run.is_some() && self.first() == run.copied() {
            self.run.pop_front();
        } else {
            self.heap.pop();
        }
    }
}

//! Delayed entries, earliest first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use bowline_clock::Instant;

use crate::arena::{Arena, Slot};
use crate::machine::{Deadline, Entry, EntryState};

/// Number of tolerated outdated records before the heap is swept.
const SLACK: usize = 64;

/// Records in order of their deadlines. A record is valid while its entry has that very deadline. Outdated records are
/// dropped when they come first, or when they outnumber the valid ones.
///
/// A record that is due after all earlier ones is appended to the run; any other goes to the heap. Most delays of a
/// queue are equal (the first retry, the resync), so most records are written and read in order.
#[derive(Debug, Default)]
pub(crate) struct Delayed {
    run: VecDeque<Record>,
    heap: BinaryHeap<Reverse<Record>>,
    /// Delayed entries; each has one valid record.
    len: usize,
    next: u64,
}

/// Ordered by time, then by creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    due: Instant,
    number: u64,
    slot: Slot,
}

impl Record {
    fn holds<K, P>(self, entries: &Arena<Entry<K, P>>) -> bool {
        let place = entries.get(self.slot).map(|entry| entry.place);
        matches!(place, Some(EntryState::Delayed(kept)) if kept == Deadline::new(self.due, self.number))
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

    /// Adds a record for an entry; the caller stores the deadline in the entry.
    pub(crate) fn insert(&mut self, slot: Slot, due: Instant) -> Deadline {
        let number = self.next;
        self.next += 1;
        self.len += 1;
        let record = Record { due, number, slot };
        if self.run.back().is_none_or(|last| *last < record) {
            self.run.push_back(record);
        } else {
            self.heap.push(Reverse(record));
        }
        Deadline::new(due, number)
    }

    /// Removes an entry that is about to change its state; its record becomes outdated.
    pub(crate) fn remove<K, P>(&mut self, entries: &Arena<Entry<K, P>>) {
        self.len -= 1;
        if self.records() > 2 * self.len + SLACK {
            self.run.retain(|record| record.holds(entries));
            self.heap.retain(|Reverse(record)| record.holds(entries));
        }
    }

    /// Removes the earliest due entry and returns its deadline. The caller must change the entry's state before the
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

    /// The next entries, in order. Drops outdated records before them.
    pub(crate) fn next<K, P>(&mut self, entries: &Arena<Entry<K, P>>, count: usize) -> Vec<(Slot, Instant)> {
        let mut found = Vec::with_capacity(count.min(self.len));
        while found.len() < count
            && let Some(record) = self.first()
        {
            let is_of_run = self.run.front() == Some(&record);
            self.remove_first();
            if record.holds(entries) {
                found.push((record, is_of_run));
            }
        }
        // In reverse, so that the run is in order again.
        for (record, is_of_run) in found.iter().rev() {
            if *is_of_run {
                self.run.push_front(*record);
            } else {
                self.heap.push(Reverse(*record));
            }
        }
        found.into_iter().map(|(record, _)| (record.slot, record.due)).collect()
    }

    /// Removes every entry.
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

//! The queue as a pure state machine: no locks, no clock, no wakers.
//!
//! Every key that the queue knows has one [`Entry`]. An entry is in one [`Place`] and is, independently of that,
//! with a worker or not. Time comes in as an argument.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bowline_clock::Instant;
use hashbrown::{HashTable, hash_table};

use crate::Coalesce;
use crate::arena::{Arena, Slot};
use crate::delayed::Delayed;
use crate::hash::{fold, spread};
use crate::list::Link;
use crate::ready::Ready;
use crate::timings::{InProgress, Timings};

/// An arena that grew beyond this many entries is given back once it is empty, unless a good part of it was needed since it
/// last was: a queue that fills now and then would grow anew each time, under its lock. After a shutdown it is not needed.
const KEPT_CAPACITY: usize = 1 << 14;

/// One that grew beyond this many entries is given back in any case.
const MOST_CAPACITY: usize = 1 << 16;

/// All there is to know about one key. Kept small: a queue may hold a million.
#[derive(Debug)]
pub(crate) struct Entry<K, P> {
    key: K,
    /// What was added since the key was last handed out; present unless the place is `Idle`.
    payload: Option<P>,
    hash: u32,
    /// Of the next run; while the place is `Idle`, of the run in progress.
    pub(crate) priority: i32,
    pub(crate) place: Place,
    with_worker: bool,
}

/// Where an entry waits for its next run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Nowhere: nothing was added since it was handed out.
    Idle,
    /// In line for a worker; never while it is with one.
    Ready { class: Link, age: Link },
    /// For its time.
    Delayed(Appointment),
    /// For its own run to end, to get in line then.
    Dirty,
}

/// A time to get in line, and the number of its record: no two are the same, though their times may be.
///
/// Both in halves: eight bytes that need only four bytes' alignment, which keeps an entry small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Appointment {
    due: [u32; 2],
    number: [u32; 2],
}

impl Appointment {
    pub(crate) fn new(due: Instant, number: u64) -> Self {
        Self { due: halves(due.as_nanos()), number: halves(number) }
    }

    pub(crate) fn due(self) -> Instant {
        let [high, low] = self.due;
        Instant::from_nanos(u64::from(high) << 32 | u64::from(low))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves together are the whole")]
fn halves(whole: u64) -> [u32; 2] {
    [(whole >> 32) as u32, whole as u32]
}

/// How a key is added. The key itself goes beside it: it may be large, and is moved only once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addition {
    /// Of the key.
    pub(crate) hash: u64,
    /// Absent: zero, or the priority of the run in progress if that is higher.
    pub(crate) priority: Option<i32>,
    /// Absent, or not later than now: now.
    pub(crate) due: Option<Instant>,
    /// Zero will do unless times are kept or it is due at some time.
    pub(crate) now: Instant,
    /// Whether it counts as a retry; the machine does not care.
    pub(crate) retry: bool,
}

impl Addition {
    /// Whether it gets nothing in line.
    pub(crate) fn is_later(&self) -> bool {
        self.later().is_some()
    }

    fn later(&self) -> Option<Instant> {
        self.due.filter(|due| *due > self.now)
    }
}

/// What an addition did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// The key got in line.
    Ready { priority: i32 },
    /// The key will get in line when its run ends.
    Dirty { priority: i32 },
    /// The key waits for its time; `earliest` if no other comes sooner.
    Delayed { earliest: bool },
    /// The key waited already, and now does so with a higher priority.
    Raised { from: i32, to: i32 },
    /// The key waited already.
    Merged,
}

/// What a worker gets.
pub(crate) struct Taken<K, P> {
    pub(crate) slot: Slot,
    pub(crate) key: K,
    /// Present until it is given back.
    pub(crate) payload: Option<P>,
    pub(crate) priority: i32,
}

/// How many keys are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) ready: usize,
    pub(crate) delayed: usize,
    pub(crate) processing: usize,
}

pub(crate) struct Machine<K, P> {
    entries: Arena<Entry<K, P>>,
    table: HashTable<Slot>,
    ready: Ready,
    delayed: Delayed,
    processing: usize,
    shutting_down: bool,
    merge_panics: u64,
    timings: Option<Timings>,
}

impl<K: Eq + Clone, P: Coalesce> Machine<K, P> {
    /// A machine that keeps times, for metrics, or not.
    pub(crate) fn new(timed: bool) -> Self {
        Self {
            entries: Arena::default(),
            table: HashTable::new(),
            ready: Ready::default(),
            delayed: Delayed::default(),
            processing: 0,
            shutting_down: false,
            merge_panics: 0,
            timings: timed.then(Timings::default),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts { ready: self.ready.len(), delayed: self.delayed.len(), processing: self.processing }
    }

    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Whether nothing is ready and nothing is with a worker.
    pub(crate) fn is_idle(&self) -> bool {
        self.ready.len() == 0 && self.processing == 0
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    pub(crate) fn merge_panics(&self) -> u64 {
        self.merge_panics
    }

    /// When [`promote`](Self::promote) has something to do next.
    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        self.delayed.earliest(&self.entries)
    }

    pub(crate) fn has_delayed(&self) -> bool {
        self.delayed.len() > 0
    }

    /// Records of deadlines, outdated ones included.
    #[cfg(test)]
    pub(crate) fn records(&self) -> usize {
        self.delayed.records()
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.entries.capacity() + self.delayed.capacity() + self.table.capacity()
    }

    pub(crate) fn in_progress(&self, now: Instant) -> InProgress {
        self.timings.as_ref().map_or_else(InProgress::default, |timings| timings.in_progress(now))
    }

    /// Adds a key; merges with what waits for it already. Not after a shutdown.
    #[inline(always)]
    pub(crate) fn add(&mut self, key: K, payload: P, addition: Addition) -> Added {
        debug_assert!(!self.shutting_down, "a queue that is shutting down takes no keys");
        let hash = fold(addition.hash);
        let entries = &self.entries;
        let found = self.table.entry(
            spread(hash),
            |slot| entries[*slot].key == key,
            |slot| spread(entries[*slot].hash),
        );
        match found {
            hash_table::Entry::Occupied(found) => {
                let slot = *found.get();
                self.add_known(slot, payload, false, addition)
            }
            hash_table::Entry::Vacant(vacant) => {
                let Addition { priority, now, .. } = addition;
                let due = addition.later();
                let priority = priority.unwrap_or(0);
                let payload = Some(payload);
                let entry = Entry { key, payload, hash, priority, place: Place::Idle, with_worker: false };
                let slot = self.entries.insert(entry);
                vacant.insert(slot);
                self.wait(slot, due, now)
            }
        }
    }

    /// Gives back the payload of the run in progress, to run again. Not after a shutdown.
    pub(crate) fn requeue(&mut self, slot: Slot, payload: P, addition: Addition) -> Added {
        debug_assert!(!self.shutting_down, "a queue that is shutting down takes no keys");
        self.add_known(slot, payload, true, addition)
    }

    /// `older`: the payload was added before the one that waits.
    fn add_known(&mut self, slot: Slot, payload: P, older: bool, addition: Addition) -> Added {
        let Addition { priority, now, .. } = addition;
        let due = addition.later();
        let entry = &mut self.entries[slot];
        if matches!(entry.place, Place::Idle) {
            entry.payload = Some(payload);
            entry.priority = priority.unwrap_or_else(|| entry.priority.max(0));
            return self.wait(slot, due, now);
        }

        if !merge(&mut entry.payload, payload, older) {
            self.merge_panics += 1;
        }
        let from = entry.priority;
        let to = from.max(priority.unwrap_or(0));
        match (entry.place, due) {
            (Place::Delayed(_), None) => {
                entry.priority = to;
                self.delayed.remove(&self.entries);
                self.wait(slot, None, now)
            }
            (Place::Delayed(appointment), Some(due)) => {
                entry.priority = to;
                if due < appointment.due() {
                    self.delayed.remove(&self.entries);
                    self.wait(slot, Some(due), now)
                } else {
                    Added::Merged
                }
            }
            _ if to == from => Added::Merged,
            (Place::Ready { .. }, _) => {
                self.ready.raise(&mut self.entries, slot, to);
                Added::Raised { from, to }
            }
            (Place::Dirty | Place::Idle, _) => {
                entry.priority = to;
                Added::Raised { from, to }
            }
        }
    }

    /// Puts an entry that waits nowhere where it belongs.
    #[inline(always)]
    fn wait(&mut self, slot: Slot, due: Option<Instant>, now: Instant) -> Added {
        let entry = &mut self.entries[slot];
        if let Some(due) = due {
            let appointment = self.delayed.insert(slot, due);
            entry.place = Place::Delayed(appointment);
            return Added::Delayed { earliest: self.delayed.earliest(&self.entries) == Some(due) };
        }
        if let Some(timings) = &mut self.timings {
            timings.queued(slot, now);
        }
        let priority = entry.priority;
        if entry.with_worker {
            entry.place = Place::Dirty;
            Added::Dirty { priority }
        } else {
            self.ready.push(&mut self.entries, slot);
            Added::Ready { priority }
        }
    }

    /// Gets every key in line whose time has come, and tells the priority of each.
    pub(crate) fn promote(&mut self, now: Instant, mut promoted: impl FnMut(i32)) {
        while let Some((slot, due)) = self.delayed.pop_due(&self.entries, now) {
            // It has been waiting since then, whenever somebody looks.
            self.wait(slot, None, due);
            promoted(self.entries[slot].priority);
        }
    }

    /// Who is handed out next, by [`take`](Self::take).
    #[inline(always)]
    pub(crate) fn next(&self) -> Option<Slot> {
        self.ready.next()
    }

    /// The keys that are in line, about in the order in which they are handed out.
    pub(crate) fn in_line(&self) -> impl Iterator<Item = &K> {
        self.ready.iter(&self.entries).map(|slot| &self.entries[slot].key)
    }

    /// Hands out the key that is [`next`](Self::next).
    #[inline(always)]
    pub(crate) fn take(&mut self, slot: Slot) -> Taken<K, P> {
        let entry = &mut self.entries[slot];
        // Cloned first: should it panic, the key is still in line.
        let key = entry.key.clone();
        entry.with_worker = true;
        let payload = entry.payload.take();
        let priority = entry.priority;
        let place = std::mem::replace(&mut entry.place, Place::Idle);
        self.ready.leave(&mut self.entries, priority, place);
        self.processing += 1;
        Taken { slot, key, payload, priority }
    }

    /// Notes when a run began; since when its key had waited for a worker. Only if times are kept.
    pub(crate) fn started(&mut self, slot: Slot, now: Instant) -> Option<Instant> {
        self.timings.as_mut().map(|timings| timings.started(slot, now))
    }

    /// When a run that is about to end began. Only if times are kept.
    pub(crate) fn finished(&mut self, slot: Slot) -> Option<Instant> {
        self.timings.as_mut().map(|timings| timings.finished(slot))
    }

    /// Whether a key that is with a worker will get in line when its run ends.
    #[inline(always)]
    pub(crate) fn is_dirty(&self, slot: Slot) -> bool {
        matches!(self.entries[slot].place, Place::Dirty)
    }

    /// A worker is done with a key that [`take`](Self::take) handed out.
    #[inline(always)]
    pub(crate) fn done(&mut self, slot: Slot) {
        self.processing -= 1;
        let entry = &mut self.entries[slot];
        if matches!(entry.place, Place::Idle) {
            return self.release(slot);
        }
        entry.with_worker = false;
        if matches!(entry.place, Place::Dirty) {
            self.ready.push(&mut self.entries, slot);
        }
    }

    /// Takes no more keys, and drops those whose time has not come. Gives their payloads, to be dropped outside the
    /// lock. What is in line, or will be when its run ends, stays.
    pub(crate) fn shutdown(&mut self) -> Vec<P> {
        self.shutting_down = true;
        self.delayed.clear();
        let delayed = self.entries.iter().filter(|(_, entry)| matches!(entry.place, Place::Delayed(_)));
        let slots: Vec<_> = delayed.map(|(slot, _)| slot).collect();
        let mut payloads = Vec::with_capacity(slots.len());
        for slot in slots {
            let entry = &mut self.entries[slot];
            entry.place = Place::Idle;
            payloads.extend(entry.payload.take());
            if !entry.with_worker {
                self.release(slot);
            }
        }
        payloads
    }

    /// Forgets an entry that waits nowhere.
    #[inline(always)]
    fn release(&mut self, slot: Slot) {
        let hash = spread(self.entries[slot].hash);
        self.entries.free(slot);
        if let Ok(found) = self.table.find_entry(hash, |other| *other == slot) {
            found.remove();
        }
        if self.entries.is_empty() && self.entries.capacity() > KEPT_CAPACITY {
            self.shrink();
        }
    }

    /// Gives back what a queue that is empty is not likely to need soon.
    #[cold]
    fn shrink(&mut self) {
        let (used, capacity) = (self.entries.used(), self.entries.capacity());
        if !self.shutting_down && capacity <= MOST_CAPACITY && used > capacity / 4 {
            self.entries.clear();
            // It is empty. This also forgets where entries were, which `clear` does not do then.
            drop(self.table.drain());
            return;
        }
        self.entries = Arena::default();
        self.table = HashTable::new();
        self.delayed.clear();
        self.timings = self.timings.take().map(|_| Timings::default());
    }
}

/// Merges `payload` into what waits; `false` if that panicked, see [`Coalesce`].
fn merge<P: Coalesce>(waiting: &mut Option<P>, mut payload: P, older: bool) -> bool {
    let Some(present) = waiting.as_mut() else {
        *waiting = Some(payload);
        return true;
    };
    if older {
        std::mem::swap(present, &mut payload);
    }
    catch_unwind(AssertUnwindSafe(|| present.coalesce(payload))).is_ok()
}

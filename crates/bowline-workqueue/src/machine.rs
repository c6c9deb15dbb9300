//! The queue as a pure state machine: no locks, no clock, no wakers.
//!
//! Every known key has one [`Entry`]. An entry is in one [`EntryState`], and independently of that it is held by a
//! worker or not. Time is an argument.

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

/// Capacity above which an empty arena is freed, unless a good part of it was used since it was last empty: otherwise a
/// queue that fills now and then would grow again each time, under its lock. After a shutdown it is always freed.
const KEPT_CAPACITY: usize = 1 << 14;

/// Capacity above which an empty arena is always freed.
const MOST_CAPACITY: usize = 1 << 16;

/// The state of one key. Kept small: a queue may hold a million.
#[derive(Debug)]
pub(crate) struct Entry<K, P> {
    key: K,
    /// The payload added since the key was last handed out; `None` only in the state `Idle`.
    payload: Option<P>,
    hash: u32,
    /// Priority of the next run; in the state `Idle`, of the current run.
    pub(crate) priority: i32,
    pub(crate) place: EntryState,
    with_worker: bool,
}

/// The state of an entry's next run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EntryState {
    /// Not queued: nothing was added since the key was handed out.
    Idle,
    /// Ready for a worker; never while a worker holds the key.
    Ready { class: Link, age: Link },
    /// Waiting for a deadline.
    Delayed(Deadline),
    /// Waiting for the current run to end; then it becomes ready.
    Dirty,
}

/// The time when a key becomes ready, and the number of its record. The number makes deadlines with equal times differ.
///
/// Both are stored as halves: eight bytes with an alignment of four, which keeps an entry small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    due: [u32; 2],
    number: [u32; 2],
}

impl Deadline {
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

/// Options of an addition. The key is passed separately: it may be large, and is moved only once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addition {
    /// Hash of the key.
    pub(crate) hash: u64,
    /// `None` means zero, or the priority of the current run if that is higher.
    pub(crate) priority: Option<i32>,
    /// `None`, or a time that has passed, means now.
    pub(crate) due: Option<Instant>,
    /// May be zero unless times are kept or `due` is set.
    pub(crate) now: Instant,
    /// Whether it counts as a retry; the machine does not use it.
    pub(crate) retry: bool,
}

impl Addition {
    /// Whether the key does not become ready now.
    pub(crate) fn is_later(&self) -> bool {
        self.later().is_some()
    }

    fn later(&self) -> Option<Instant> {
        self.due.filter(|due| *due > self.now)
    }
}

/// The effect of an addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// The key became ready.
    Ready { priority: i32 },
    /// The key becomes ready when its run ends.
    Dirty { priority: i32 },
    /// The key is delayed; `earliest` if no other deadline is earlier.
    Delayed { earliest: bool },
    /// The key was ready, and its priority is now higher.
    Raised { from: i32, to: i32 },
    /// The key was queued, and its state is unchanged.
    Merged,
}

/// A key handed to a worker.
pub(crate) struct Taken<K, P> {
    pub(crate) slot: Slot,
    pub(crate) key: K,
    /// `None` after it is given back.
    pub(crate) payload: Option<P>,
    pub(crate) priority: i32,
}

/// Number of keys per state.
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
    /// A machine that keeps times for metrics, or not.
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

    /// Whether no key is ready and none is held by a worker.
    pub(crate) fn is_idle(&self) -> bool {
        self.ready.len() == 0 && self.processing == 0
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    pub(crate) fn merge_panics(&self) -> u64 {
        self.merge_panics
    }

    /// The next time at which [`promote`](Self::promote) has an effect.
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

    /// Adds a key; merges with a queued payload. Not after a shutdown.
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
                let entry =
                    Entry { key, payload, hash, priority, place: EntryState::Idle, with_worker: false };
                let slot = self.entries.insert(entry);
                vacant.insert(slot);
                self.wait(slot, due, now)
            }
        }
    }

    /// Adds a running key again, with its payload. Not after a shutdown.
    pub(crate) fn requeue(&mut self, slot: Slot, payload: P, addition: Addition) -> Added {
        debug_assert!(!self.shutting_down, "a queue that is shutting down takes no keys");
        self.add_known(slot, payload, true, addition)
    }

    /// `older`: the payload was added before the queued one.
    fn add_known(&mut self, slot: Slot, payload: P, older: bool, addition: Addition) -> Added {
        let Addition { priority, now, .. } = addition;
        let due = addition.later();
        let entry = &mut self.entries[slot];
        if matches!(entry.place, EntryState::Idle) {
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
            (EntryState::Delayed(_), None) => {
                entry.priority = to;
                self.delayed.remove(&self.entries);
                self.wait(slot, None, now)
            }
            (EntryState::Delayed(appointment), Some(due)) => {
                entry.priority = to;
                if due < appointment.due() {
                    self.delayed.remove(&self.entries);
                    self.wait(slot, Some(due), now)
                } else {
                    Added::Merged
                }
            }
            _ if to == from => Added::Merged,
            (EntryState::Ready { .. }, _) => {
                self.ready.raise(&mut self.entries, slot, to);
                Added::Raised { from, to }
            }
            (EntryState::Dirty | EntryState::Idle, _) => {
                entry.priority = to;
                Added::Raised { from, to }
            }
        }
    }

    /// Moves an idle entry into the state for `due`.
    #[inline(always)]
    fn wait(&mut self, slot: Slot, due: Option<Instant>, now: Instant) -> Added {
        let entry = &mut self.entries[slot];
        if let Some(due) = due {
            let appointment = self.delayed.insert(slot, due);
            entry.place = EntryState::Delayed(appointment);
            return Added::Delayed { earliest: self.delayed.earliest(&self.entries) == Some(due) };
        }
        if let Some(timings) = &mut self.timings {
            timings.queued(slot, now);
        }
        let priority = entry.priority;
        if entry.with_worker {
            entry.place = EntryState::Dirty;
            Added::Dirty { priority }
        } else {
            self.ready.push(&mut self.entries, slot);
            Added::Ready { priority }
        }
    }

    /// Makes every due key ready, and passes the priority of each to `promoted`.
    pub(crate) fn promote(&mut self, now: Instant, mut promoted: impl FnMut(i32)) {
        while let Some((slot, due)) = self.delayed.pop_due(&self.entries, now) {
            // It has been ready since then, not since this call.
            self.wait(slot, None, due);
            promoted(self.entries[slot].priority);
        }
    }

    /// The slot that [`take`](Self::take) must be called with next.
    #[inline(always)]
    pub(crate) fn next(&self) -> Option<Slot> {
        self.ready.next()
    }

    /// The ready keys, roughly in dispatch order.
    pub(crate) fn in_line(&self) -> impl Iterator<Item = &K> {
        self.ready.iter(&self.entries).map(|slot| &self.entries[slot].key)
    }

    /// The delayed keys with their deadlines, earliest first.
    pub(crate) fn delayed(&mut self, count: usize) -> Vec<(&K, Instant)> {
        let next = self.delayed.next(&self.entries, count);
        next.into_iter().map(|(slot, due)| (&self.entries[slot].key, due)).collect()
    }

    /// Hands out the key of [`next`](Self::next).
    #[inline(always)]
    pub(crate) fn take(&mut self, slot: Slot) -> Taken<K, P> {
        let entry = &mut self.entries[slot];
        // Cloned first: if that panics, the key is still ready.
        let key = entry.key.clone();
        entry.with_worker = true;
        let payload = entry.payload.take();
        let priority = entry.priority;
        let place = std::mem::replace(&mut entry.place, EntryState::Idle);
        self.ready.leave(&mut self.entries, priority, place);
        self.processing += 1;
        Taken { slot, key, payload, priority }
    }

    /// Stores the start of a run, and returns when its key became ready. Only if times are kept.
    pub(crate) fn started(&mut self, slot: Slot, now: Instant) -> Option<Instant> {
        self.timings.as_mut().map(|timings| timings.started(slot, now))
    }

    /// The start of a run that is about to end. Only if times are kept.
    pub(crate) fn finished(&mut self, slot: Slot) -> Option<Instant> {
        self.timings.as_mut().map(|timings| timings.finished(slot))
    }

    /// Whether a key that a worker holds becomes ready when its run ends.
    #[inline(always)]
    pub(crate) fn is_dirty(&self, slot: Slot) -> bool {
        matches!(self.entries[slot].place, EntryState::Dirty)
    }

    /// Ends the run of a key that [`take`](Self::take) handed out.
    #[inline(always)]
    pub(crate) fn done(&mut self, slot: Slot) {
        self.processing -= 1;
        let entry = &mut self.entries[slot];
        if matches!(entry.place, EntryState::Idle) {
            return self.release(slot);
        }
        entry.with_worker = false;
        if matches!(entry.place, EntryState::Dirty) {
            self.ready.push(&mut self.entries, slot);
        }
    }

    /// Stops accepting keys and removes delayed ones. Returns their payloads, to be dropped outside the lock. Ready
    /// keys, and those that become ready after their run, stay.
    pub(crate) fn shutdown(&mut self) -> Vec<P> {
        self.shutting_down = true;
        self.delayed.clear();
        let delayed = self.entries.iter().filter(|(_, entry)| matches!(entry.place, EntryState::Delayed(_)));
        let slots: Vec<_> = delayed.map(|(slot, _)| slot).collect();
        let mut payloads = Vec::with_capacity(slots.len());
        for slot in slots {
            let entry = &mut self.entries[slot];
            entry.place = EntryState::Idle;
            payloads.extend(entry.payload.take());
            if !entry.with_worker {
                self.release(slot);
            }
        }
        payloads
    }

    /// Removes an idle entry.
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

    /// Frees memory that an empty queue is unlikely to need soon.
    #[cold]
    fn shrink(&mut self) {
        let (used, capacity) = (self.entries.used(), self.entries.capacity());
        if !self.shutting_down && capacity <= MOST_CAPACITY && used > capacity / 4 {
            self.entries.clear();
            // The table is empty. Unlike `clear`, this also resets the marks of removed entries.
            drop(self.table.drain());
            return;
        }
        self.entries = Arena::default();
        self.table = HashTable::new();
        self.delayed.clear();
        self.timings = self.timings.take().map(|_| Timings::default());
    }
}

/// Merges `payload` into the queued one; `false` if that panicked, see [`Coalesce`].
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

//! What is to be written to one sink: series of events, and a bounded queue of those that have something new to tell.
//! A state machine without I/O; `delivery.rs` carries it out.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use bowline_clock::{Instant, Rng};

use super::correlator::{Correlator, Keys};
use super::lru::Lru;
use super::metrics::{Count, Counters};
use super::{CorrelatorOptions, EventRecord, Repeats};

/// A series that nothing was added to for so long is over.
const FINISHED_AFTER: Duration = Duration::from_secs(6 * 60);

/// The count of a series is written again after so long.
const REFRESHED_AFTER: Duration = Duration::from_secs(30 * 60);

/// How long a series that cannot be finished yet is left alone.
const LOOKED_AT_AGAIN_AFTER: Duration = Duration::from_secs(10);

pub(super) struct Outbox {
    repeats: Repeats,
    capacity: NonZero<usize>,
    correlator: Correlator,
    series: Lru<Series>,
    queue: VecDeque<Entry>,
    /// Writes that were taken and are not done.
    on_their_way: usize,
    is_closed: bool,
    next_look: Option<Instant>,
    counters: Arc<Counters>,
}

struct Series {
    event: EventRecord,
    source: Arc<str>,
    /// The count that the sink has; none if it was not given this yet.
    written: u32,
    written_at: Instant,
    last: Instant,
    /// Whether it waits in the queue or is on its way.
    is_busy: bool,
}

enum Entry {
    /// A series that has something new to tell.
    Series(Arc<str>),
    /// What is no part of a series, or no longer.
    Loose { event: Box<EventRecord>, earlier: bool },
}

/// A write that is on its way.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) event: EventRecord,
    pub(super) earlier: bool,
    series: Option<Arc<str>>,
}

impl Outbox {
    pub(super) fn new(
        repeats: Repeats,
        capacity: NonZero<usize>,
        options: CorrelatorOptions,
        counters: Arc<Counters>,
        rng: &Rng,
    ) -> Self {
        Self {
            repeats,
            capacity,
            series: Lru::new(options.memory(), rng.hash_state()),
            correlator: Correlator::new(options, rng.clone()),
            queue: VecDeque::new(),
            on_their_way: 0,
            is_closed: false,
            next_look: None,
            counters,
        }
    }

    /// Takes an event in. Whether there is something to do for whoever delivers.
    pub(super) fn observe(&mut self, mut event: EventRecord, now: Instant) -> bool {
        self.counters.add(Count::Recorded, 1);
        if self.is_closed {
            self.counters.add(Count::Dropped, 1);
            return false;
        }
        if self.repeats == Repeats::Each {
            return self.enqueue_new(Entry::Loose { event: Box::new(event), earlier: false });
        }
        let Keys { source, series: key } = self.correlator.identify(&mut event, now);
        if let Some(series) = self.series.get(&key) {
            series.event.count = series.event.count.saturating_add(1);
            series.event.last = event.last;
            if self.repeats == Repeats::Counted {
                series.event.note = event.note;
            }
            series.last = now;
            if series.is_busy || !wants_write(self.repeats, series) {
                self.counters.add(Count::Counted, 1);
                return false;
            }
        } else {
            let series = Series {
                event,
                source: Arc::clone(&source),
                written: 0,
                written_at: now,
                last: now,
                is_busy: false,
            };
            if let Some(evicted) = self.series.insert(Arc::clone(&key), series) {
                self.part_with(evicted);
            }
            self.next_look.get_or_insert(now + FINISHED_AFTER);
        }
        if !self.correlator.allow(&source, now) {
            self.counters.add(Count::Filtered, 1);
            return false;
        }
        let is_queued = self.enqueue_new(Entry::Series(Arc::clone(&key)));
        if let Some(series) = self.series.peek(&key) {
            series.is_busy = is_queued;
        }
        is_queued
    }

    /// The next write. It is to be given back through [`done`](Self::done).
    pub(super) fn take(&mut self) -> Option<Letter> {
        let letter = self.next_letter();
        self.on_their_way += usize::from(letter.is_some());
        letter
    }

    fn next_letter(&mut self) -> Option<Letter> {
        while let Some(entry) = self.queue.pop_front() {
            match entry {
                Entry::Loose { event, earlier } => {
                    return Some(Letter { event: *event, earlier, series: None });
                }
                Entry::Series(key) => {
                    // One that was forgotten meanwhile was counted when it was.
                    if let Some(series) = self.series.peek(&key) {
                        let (event, earlier) = (series.event.clone(), series.written > 0);
                        return Some(Letter { event, earlier, series: Some(key) });
                    }
                }
            }
        }
        None
    }

    /// A write is over: the sink took it, or it was given up.
    pub(super) fn done(&mut self, letter: &Letter, is_taken: bool, now: Instant) {
        self.on_their_way -= 1;
        if is_taken {
            self.counters.add(Count::Sent, 1);
        } else {
            self.counters.add(Count::Failed, 1);
        }
        let Some(key) = &letter.series else { return };
        // The series may have been forgotten meanwhile, and another begun.
        let is_of = |series: &&mut Series| series.event.name == letter.event.name;
        let Some(series) = self.series.peek(key).filter(is_of) else { return };
        series.is_busy = false;
        if !is_taken {
            return;
        }
        series.written = letter.event.count;
        series.written_at = now;
        // What was added while it was on its way.
        if self.is_closed && series.event.count > series.written {
            series.is_busy = true;
            self.queue.push_back(Entry::Series(Arc::clone(key)));
        } else if wants_write(self.repeats, series) {
            let source = Arc::clone(&series.source);
            if self.correlator.allow(&source, now)
                && self.enqueue(Entry::Series(Arc::clone(key)))
                && let Some(series) = self.series.peek(key)
            {
                series.is_busy = true;
            }
        }
    }

    /// When [`look_after_series`](Self::look_after_series) has something to do.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.next_look
    }

    /// Ends the series that nothing was added to for long, and has the others' counts written again.
    pub(super) fn look_after_series(&mut self, now: Instant) {
        let mut next: Option<Instant> = None;
        for key in self.series.keys() {
            let Some(series) = self.series.peek(&key) else { continue };
            let is_ahead = series.event.count > series.written && series.written > 0;
            let mut look = series.last + FINISHED_AFTER;
            if series.is_busy {
                look = look.max(now + LOOKED_AT_AGAIN_AFTER);
            } else if look <= now {
                let last_words =
                    is_ahead.then(|| Entry::Loose { event: Box::new(series.event.clone()), earlier: true });
                if last_words.is_none_or(|words| self.enqueue(words)) {
                    self.series.remove(&key);
                    continue;
                }
                look = now + LOOKED_AT_AGAIN_AFTER;
            } else if is_ahead {
                let mut refresh = series.written_at + REFRESHED_AFTER;
                if refresh <= now {
                    let is_queued = self.enqueue(Entry::Series(Arc::clone(&key)));
                    if let Some(series) = self.series.peek(&key) {
                        series.is_busy = is_queued;
                    }
                    refresh = now + LOOKED_AT_AGAIN_AFTER;
                }
                look = look.min(refresh);
            } else if series.written > 0 {
                // Something may be added to it until then.
                look = look.min((series.written_at + REFRESHED_AFTER).max(now + LOOKED_AT_AGAIN_AFTER));
            }
            next = Some(next.map_or(look, |next| next.min(look)));
        }
        self.next_look = next;
    }

    /// Takes no more events, and has the last counts of all series written: no more than are remembered. Whether it was open.
    pub(super) fn close(&mut self) -> bool {
        if std::mem::replace(&mut self.is_closed, true) {
            return false;
        }
        for key in self.series.keys() {
            let Some(series) = self.series.peek(&key) else { continue };
            if !series.is_busy && series.written > 0 && series.event.count > series.written {
                series.is_busy = true;
                self.queue.push_back(Entry::Series(key));
            }
        }
        true
    }

    /// Takes events again, after [`close`](Self::close).
    pub(super) fn open(&mut self) {
        self.is_closed = false;
    }

    /// Gives up what waits, and what is on its way and will never be done. How much that was.
    pub(super) fn clear(&mut self) -> usize {
        let left = self.queue.len() + std::mem::take(&mut self.on_their_way);
        self.counters.add(Count::Dropped, left as u64);
        self.queue.clear();
        for key in self.series.keys() {
            if let Some(series) = self.series.peek(&key) {
                series.is_busy = false;
            }
        }
        left
    }

    /// What a series that is forgotten has still to tell. One that waits in the queue goes with what it has.
    fn part_with(&mut self, series: Series) {
        let Series { event, written, is_busy, .. } = series;
        if is_busy || (written > 0 && event.count > written) {
            let earlier = written > 0;
            self.enqueue_new(Entry::Loose { event: Box::new(event), earlier });
        }
    }

    fn enqueue_new(&mut self, entry: Entry) -> bool {
        let is_queued = self.enqueue(entry);
        if !is_queued {
            self.counters.add(Count::Dropped, 1);
        }
        is_queued
    }

    fn enqueue(&mut self, entry: Entry) -> bool {
        let has_room = self.queue.len() < self.capacity.get();
        if has_room {
            self.queue.push_back(entry);
        }
        has_room
    }
}

/// Whether a series has something to tell that does not wait until it is looked after.
fn wants_write(repeats: Repeats, series: &Series) -> bool {
    match repeats {
        Repeats::Each | Repeats::Counted => series.event.count > series.written,
        Repeats::Series => series.written < 2 && series.event.count > series.written,
    }
}

#[cfg(test)]
mod tests;

//! What is to be written to one sink: series of events, and a bounded queue of those that have something new to tell.
//! A state machine without I/O; `delivery.rs` carries it out.

use std::collections::VecDeque;
use std::mem;
use std::num::NonZero;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline_clock::{Instant, Rng};

use super::correlator::{Correlator, Keys};
use super::digest::Digest;
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

/// Events that are alike: one event of the API, with a count.
struct Series {
    event: Known,
    source: Digest,
    /// The count that the sink has; none if it was not given this yet.
    written: u32,
    written_at: Instant,
    last: Instant,
    /// Whether it waits in the queue or is on its way.
    is_busy: bool,
}

/// What is known of the event of a series. There may be very many of them, and most have nothing to tell.
enum Known {
    /// There is nothing to tell, and whoever adds to it says all the rest again.
    Told { name: Box<str>, first: SystemTime, count: u32 },
    /// There is something to tell, though nothing may be added to it any more.
    Untold(Box<EventRecord>),
}

enum Entry {
    /// A series that has something new to tell.
    Series(Digest),
    /// What is no part of a series, or no longer.
    Loose { event: Box<EventRecord>, earlier: bool },
}

/// A write that is on its way.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) event: Box<EventRecord>,
    pub(super) earlier: bool,
    series: Option<Digest>,
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
            correlator: Correlator::new(options, rng),
            queue: VecDeque::new(),
            on_their_way: 0,
            is_closed: false,
            next_look: None,
            counters,
        }
    }

    /// Takes an event in, and gives it a name if it is the first of its kind. Whether there is something to do for whoever
    /// delivers.
    pub(super) fn observe(
        &mut self,
        mut event: EventRecord,
        naming: &mut dyn FnMut(&EventRecord) -> String,
        now: Instant,
    ) -> bool {
        self.counters.add(Count::Recorded, 1);
        if self.is_closed {
            self.counters.add(Count::Dropped, 1);
            return false;
        }
        if self.repeats == Repeats::Each {
            event.name = naming(&event);
            return self.enqueue_new(Entry::Loose { event: Box::new(event), earlier: false });
        }
        let Keys { source, series: key } = self.correlator.identify(&mut event, now);
        if let Some(series) = self.series.get(key) {
            series.add(event, self.repeats, now);
            if series.is_busy || !series.wants_write(self.repeats) {
                self.counters.add(Count::Counted, 1);
                return false;
            }
        } else {
            event.name = naming(&event);
            let event = Known::Untold(Box::new(event));
            let series = Series { event, source, written: 0, written_at: now, last: now, is_busy: false };
            if let Some(evicted) = self.series.insert(key, series) {
                self.part_with(evicted);
            }
            self.next_look.get_or_insert(now + FINISHED_AFTER);
        }
        let is_allowed = self.correlator.allow(source, now);
        if !is_allowed {
            self.counters.add(Count::Filtered, 1);
        }
        let is_queued = is_allowed && self.enqueue_new(Entry::Series(key));
        if let Some(series) = self.series.peek(key) {
            series.is_busy = is_queued;
            series.settle();
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
                Entry::Loose { event, earlier } => return Some(Letter { event, earlier, series: None }),
                Entry::Series(key) => {
                    // One that was forgotten meanwhile was counted when it was.
                    if let Some(series) = self.series.peek(key)
                        && let Some(event) = series.event.tell()
                    {
                        return Some(Letter { event, earlier: series.written > 0, series: Some(key) });
                    }
                }
            }
        }
        None
    }

    /// A write is over: the sink took it, or it was given up.
    pub(super) fn done(&mut self, letter: Letter, is_taken: bool, now: Instant) {
        self.on_their_way -= 1;
        if is_taken {
            self.counters.add(Count::Sent, 1);
        } else {
            self.counters.add(Count::Failed, 1);
        }
        let Letter { event, series: Some(key), .. } = letter else { return };
        // The series may have been forgotten meanwhile, and another begun.
        let is_of = |series: &&mut Series| series.event.name() == event.name;
        let Some(series) = self.series.peek(key).filter(is_of) else { return };
        series.is_busy = false;
        if !is_taken {
            series.event.take_back(event);
            series.settle();
            return;
        }
        series.written = event.count;
        series.written_at = now;
        // What was added while it was on its way.
        if self.is_closed && series.event.count() > series.written {
            series.is_busy = true;
            self.queue.push_back(Entry::Series(key));
        } else if series.wants_write(self.repeats) {
            let source = series.source;
            if self.correlator.allow(source, now)
                && self.enqueue(Entry::Series(key))
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
            let has_room = self.has_room();
            let Some(series) = self.series.peek(key) else { continue };
            let is_ahead = series.is_ahead();
            let mut look = series.last + FINISHED_AFTER;
            if series.is_busy {
                look = look.max(now + LOOKED_AT_AGAIN_AFTER);
            } else if look <= now {
                if !is_ahead || has_room {
                    if let Some(finished) = self.series.remove(key) {
                        self.part_with(finished);
                    }
                    continue;
                }
                look = now + LOOKED_AT_AGAIN_AFTER;
            } else if is_ahead {
                let mut refresh = series.written_at + REFRESHED_AFTER;
                if refresh <= now {
                    series.is_busy = has_room;
                    self.enqueue(Entry::Series(key));
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
        if mem::replace(&mut self.is_closed, true) {
            return false;
        }
        for key in self.series.keys() {
            let Some(series) = self.series.peek(key) else { continue };
            if !series.is_busy && series.is_ahead() {
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
        let left = self.queue.len() + mem::take(&mut self.on_their_way);
        self.counters.add(Count::Dropped, left as u64);
        self.queue.clear();
        for key in self.series.keys() {
            if let Some(series) = self.series.peek(key) {
                series.is_busy = false;
                series.settle();
            }
        }
        left
    }

    /// What a series that is forgotten has still to tell. One that waits in the queue goes with what it has.
    fn part_with(&mut self, series: Series) {
        if let Known::Untold(event) = series.event {
            self.enqueue_new(Entry::Loose { event, earlier: series.written > 0 });
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
        let has_room = self.has_room();
        if has_room {
            self.queue.push_back(entry);
        }
        has_room
    }

    fn has_room(&self) -> bool {
        self.queue.len() < self.capacity.get()
    }
}

impl Series {
    /// One more event.
    fn add(&mut self, event: EventRecord, repeats: Repeats, now: Instant) {
        self.last = now;
        match &mut self.event {
            Known::Untold(known) => {
                known.count = known.count.saturating_add(1);
                known.last = event.last;
                if repeats == Repeats::Counted {
                    known.note = event.note;
                }
            }
            Known::Told { name, first, count } => {
                let (name, first, count) = (mem::take(name).into(), *first, count.saturating_add(1));
                self.event = Known::Untold(Box::new(EventRecord { name, first, count, ..event }));
            }
        }
    }

    /// Whether it has something to tell that does not wait until it is looked after.
    fn wants_write(&self, repeats: Repeats) -> bool {
        let is_news = self.event.count() > self.written;
        match repeats {
            Repeats::Each | Repeats::Counted => is_news,
            Repeats::Series => is_news && self.written < 2,
        }
    }

    /// Whether it was seen more often than the sink knows, of what the sink has.
    fn is_ahead(&self) -> bool {
        self.written > 0 && self.event.count() > self.written
    }

    /// Lets go of what nobody will ask for.
    fn settle(&mut self) {
        if !self.is_busy && !self.is_ahead() {
            self.event.tell();
        }
    }
}

impl Known {
    fn name(&self) -> &str {
        match self {
            Self::Told { name, .. } => name,
            Self::Untold(event) => &event.name,
        }
    }

    fn count(&self) -> u32 {
        match self {
            Self::Told { count, .. } => *count,
            Self::Untold(event) => event.count,
        }
    }

    /// What there is to tell, which is told from now on.
    fn tell(&mut self) -> Option<Box<EventRecord>> {
        let Self::Untold(event) = self else { return None };
        let told = Self::Told { name: event.name.as_str().into(), first: event.first, count: event.count };
        match mem::replace(self, told) {
            Self::Untold(event) => Some(event),
            Self::Told { .. } => None,
        }
    }

    /// What was not told after all, unless there is newer.
    fn take_back(&mut self, event: Box<EventRecord>) {
        if let Self::Told { .. } = self {
            *self = Self::Untold(event);
        }
    }
}

#[cfg(test)]
mod tests;

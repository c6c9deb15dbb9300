//! The pending writes of one sink: series of events, and a bounded queue of those with changes. A state machine without
//! I/O, driven by `delivery.rs`.

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
use super::{CorrelatorOptions, EventRecord, RepeatPolicy};

/// Time without a new event after which a series ends.
const SERIES_TIMEOUT: Duration = Duration::from_secs(6 * 60);

/// Interval at which the growing count of a series is written.
const REFRESH_INTERVAL: Duration = Duration::from_secs(30 * 60);

/// Delay before a series that cannot end yet is checked again.
const RECHECK_DELAY: Duration = Duration::from_secs(10);

pub(super) struct Outbox {
    repeats: RepeatPolicy,
    capacity: NonZero<usize>,
    correlator: Correlator,
    series: Lru<Series>,
    queue: VecDeque<Entry>,
    /// Number of writes in progress.
    in_progress: usize,
    is_closed: bool,
    next_check: Option<Instant>,
    counters: Arc<Counters>,
}

/// Equal or aggregated events: one event of the API, with a count.
struct Series {
    event: SeriesEvent,
    source: Digest,
    /// The last written count; 0 if it was never written.
    written: u32,
    written_at: Instant,
    last: Instant,
    progress: Progress,
}

/// How far the changes of a series are on their way to the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Idle,
    /// An entry of the queue is for it. The queue may also have entries of a dropped series with the same key.
    Queued,
    /// A write is in progress, and no second one begins.
    Writing,
}

/// The event of a series. There may be very many, most of them without changes.
enum SeriesEvent {
    /// Nothing to write. The next event brings the other fields again.
    Compact { name: Box<str>, first: SystemTime, count: u32 },
    /// The whole event, with something to write.
    Full(Box<EventRecord>),
}

enum Entry {
    /// A series with changes.
    Series(Digest),
    /// An event without a series, or whose series was dropped.
    Loose { event: Box<EventRecord>, earlier: bool },
}

/// A write in progress.
#[derive(Debug)]
pub(super) struct PendingWrite {
    pub(super) event: Box<EventRecord>,
    pub(super) earlier: bool,
    series: Option<Digest>,
}

impl Outbox {
    pub(super) fn new(
        repeats: RepeatPolicy,
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
            in_progress: 0,
            is_closed: false,
            next_check: None,
            counters,
        }
    }

    /// Accepts an event, and names it if it begins a series. Returns whether there is a new write.
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
        if self.repeats == RepeatPolicy::Each {
            event.name = naming(&event);
            return self.enqueue_new(Entry::Loose { event: Box::new(event), earlier: false });
        }
        let Keys { source, series: key } = self.correlator.identify(&mut event, now);
        if let Some(series) = self.series.get(key) {
            series.add(event, self.repeats, now);
            if series.is_busy() || !series.wants_write(self.repeats) {
                self.counters.add(Count::Counted, 1);
                return false;
            }
        } else {
            event.name = naming(&event);
            let event = SeriesEvent::Full(Box::new(event));
            let series =
                Series { event, source, written: 0, written_at: now, last: now, progress: Progress::Idle };
            if let Some(evicted) = self.series.insert(key, series) {
                self.queue_dropped(evicted);
            }
            self.next_check.get_or_insert(now + SERIES_TIMEOUT);
        }
        let is_allowed = self.correlator.allow(source, now);
        if !is_allowed {
            self.counters.add(Count::Filtered, 1);
        }
        let is_queued = is_allowed && self.enqueue_new(Entry::Series(key));
        if let Some(series) = self.series.peek(key) {
            series.progress = if is_queued { Progress::Queued } else { Progress::Idle };
            series.compact();
        }
        is_queued
    }

    /// Returns the next write, to be completed with [`done`](Self::done).
    pub(super) fn take(&mut self) -> Option<PendingWrite> {
        let pending = self.next_pending();
        self.in_progress += usize::from(pending.is_some());
        pending
    }

    fn next_pending(&mut self) -> Option<PendingWrite> {
        while let Some(entry) = self.queue.pop_front() {
            match entry {
                Entry::Loose { event, earlier } => {
                    return Some(PendingWrite { event, earlier, series: None });
                }
                Entry::Series(key) => {
                    // A series that was dropped meanwhile was counted then.
                    if let Some(series) = self.series.peek(key)
                        && series.progress == Progress::Queued
                        && let Some(event) = series.event.take_full()
                    {
                        series.progress = Progress::Writing;
                        return Some(PendingWrite { event, earlier: series.written > 0, series: Some(key) });
                    }
                }
            }
        }
        None
    }

    /// Completes a write, successful or not.
    pub(super) fn done(&mut self, pending: PendingWrite, is_written: bool, now: Instant) {
        self.in_progress -= 1;
        if is_written {
            self.counters.add(Count::Sent, 1);
        } else {
            self.counters.add(Count::Failed, 1);
        }
        let PendingWrite { event, series: Some(key), .. } = pending else { return };
        // The series may have been dropped meanwhile, and another one begun.
        let is_of = |series: &&mut Series| series.event.name() == event.name;
        let Some(series) = self.series.peek(key).filter(is_of) else { return };
        series.progress = Progress::Idle;
        if !is_written {
            series.event.restore(event);
            series.compact();
            return;
        }
        series.written = event.count;
        series.written_at = now;
        // Events that were added during the write.
        if self.is_closed && series.event.count() > series.written {
            series.progress = Progress::Queued;
            self.queue.push_back(Entry::Series(key));
        } else if series.wants_write(self.repeats) {
            let source = series.source;
            if self.correlator.allow(source, now)
                && self.enqueue(Entry::Series(key))
                && let Some(series) = self.series.peek(key)
            {
                series.progress = Progress::Queued;
            }
        }
    }

    /// Time of the next [`check_series`](Self::check_series).
    pub(super) fn next_check(&self) -> Option<Instant> {
        self.next_check
    }

    /// Ends series without new events, and writes the growing counts of others.
    pub(super) fn check_series(&mut self, now: Instant) {
        let mut next: Option<Instant> = None;
        for key in self.series.keys() {
            let has_room = self.has_room();
            let Some(series) = self.series.peek(key) else { continue };
            let is_ahead = series.is_ahead();
            let mut look = series.last + SERIES_TIMEOUT;
            if series.is_busy() {
                look = look.max(now + RECHECK_DELAY);
            } else if look <= now {
                if !is_ahead || has_room {
                    if let Some(finished) = self.series.remove(key) {
                        self.queue_dropped(finished);
                    }
                    continue;
                }
                look = now + RECHECK_DELAY;
            } else if is_ahead {
                let mut refresh = series.written_at + REFRESH_INTERVAL;
                if refresh <= now {
                    if has_room {
                        series.progress = Progress::Queued;
                        self.enqueue(Entry::Series(key));
                    }
                    refresh = now + RECHECK_DELAY;
                }
                look = look.min(refresh);
            } else if series.written > 0 {
                // Events may be added until then.
                look = look.min((series.written_at + REFRESH_INTERVAL).max(now + RECHECK_DELAY));
            }
            next = Some(next.map_or(look, |next| next.min(look)));
        }
        self.next_check = next;
    }

    /// Stops accepting events, and queues the last counts of all series. Returns whether it was open.
    pub(super) fn close(&mut self) -> bool {
        if mem::replace(&mut self.is_closed, true) {
            return false;
        }
        for key in self.series.keys() {
            let Some(series) = self.series.peek(key) else { continue };
            if !series.is_busy() && series.is_ahead() {
                series.progress = Progress::Queued;
                self.queue.push_back(Entry::Series(key));
            }
        }
        true
    }

    /// Accepts events again after [`close`](Self::close).
    pub(super) fn open(&mut self) {
        self.is_closed = false;
    }

    /// Drops all pending writes, including those in progress. Returns their number.
    pub(super) fn clear(&mut self) -> usize {
        let left = self.queue.len() + mem::take(&mut self.in_progress);
        self.counters.add(Count::Dropped, left as u64);
        self.queue.clear();
        for key in self.series.keys() {
            if let Some(series) = self.series.peek(key) {
                series.progress = Progress::Idle;
                series.compact();
            }
        }
        left
    }

    /// Queues the unwritten changes of a dropped series. A series in the queue keeps its content.
    fn queue_dropped(&mut self, series: Series) {
        if let SeriesEvent::Full(event) = series.event {
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
    /// Adds an event.
    fn add(&mut self, event: EventRecord, repeats: RepeatPolicy, now: Instant) {
        self.last = now;
        match &mut self.event {
            SeriesEvent::Full(known) => {
                known.count = known.count.saturating_add(1);
                known.last = event.last;
                if repeats == RepeatPolicy::Counted {
                    known.note = event.note;
                }
            }
            SeriesEvent::Compact { name, first, count } => {
                let (name, first, count) = (mem::take(name).into(), *first, count.saturating_add(1));
                self.event = SeriesEvent::Full(Box::new(EventRecord { name, first, count, ..event }));
            }
        }
    }

    /// Whether it is queued or being written.
    fn is_busy(&self) -> bool {
        self.progress != Progress::Idle
    }

    /// Whether it has changes to write now, not with the next check.
    fn wants_write(&self, repeats: RepeatPolicy) -> bool {
        let is_news = self.event.count() > self.written;
        match repeats {
            RepeatPolicy::Each | RepeatPolicy::Counted => is_news,
            RepeatPolicy::Series => is_news && self.written < 2,
        }
    }

    /// Whether the written count is outdated.
    fn is_ahead(&self) -> bool {
        self.written > 0 && self.event.count() > self.written
    }

    /// Frees the other fields if there is nothing to write.
    fn compact(&mut self) {
        if !self.is_busy() && !self.is_ahead() {
            self.event.take_full();
        }
    }
}

impl SeriesEvent {
    fn name(&self) -> &str {
        match self {
            Self::Compact { name, .. } => name,
            Self::Full(event) => &event.name,
        }
    }

    fn count(&self) -> u32 {
        match self {
            Self::Compact { count, .. } => *count,
            Self::Full(event) => event.count,
        }
    }

    /// Takes the whole event, to write it.
    fn take_full(&mut self) -> Option<Box<EventRecord>> {
        let Self::Full(event) = self else { return None };
        let compact =
            Self::Compact { name: event.name.as_str().into(), first: event.first, count: event.count };
        match mem::replace(self, compact) {
            Self::Full(event) => Some(event),
            Self::Compact { .. } => None,
        }
    }

    /// Restores an event that was not written, unless there is a newer one.
    fn restore(&mut self, event: Box<EventRecord>) {
        if let Self::Compact { .. } = self {
            *self = Self::Full(event);
        }
    }
}

#[cfg(test)]
mod tests;

//! Times when keys became ready and when their runs began; kept only for a queue with metrics.

use std::time::Duration;

use bowline_clock::Instant;

use crate::arena::Slot;

/// Keys held by workers at one moment, see [`Metrics::attach`](crate::Metrics::attach).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InProgress {
    /// Number of keys.
    pub count: usize,
    /// Sum of the durations of their runs so far: `unfinished_work_seconds`.
    pub unfinished_work: Duration,
    /// Duration of the longest run so far: `longest_running_processor_seconds`.
    pub longest_running: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Timings {
    /// By slot; valid for ready entries.
    queued: Vec<Instant>,
    /// One per worker, unordered: few enough for a linear search.
    started: Vec<(Slot, Instant)>,
}

impl Timings {
    pub(crate) fn queued(&mut self, slot: Slot, now: Instant) {
        if self.queued.len() <= slot.index() {
            self.queued.resize(slot.index() + 1, Instant::ZERO);
        }
        self.queued[slot.index()] = now;
    }

    /// Starts a run; returns when the key became ready.
    pub(crate) fn started(&mut self, slot: Slot, now: Instant) -> Instant {
        self.started.push((slot, now));
        self.queued[slot.index()]
    }

    /// Ends a run; returns its start.
    pub(crate) fn finished(&mut self, slot: Slot) -> Instant {
        let position = self.started.iter().position(|(other, _)| *other == slot);
        position.map_or(Instant::ZERO, |position| self.started.swap_remove(position).1)
    }

    pub(crate) fn in_progress(&self, now: Instant) -> InProgress {
        let runs = || self.started.iter().map(|(_, started)| now.duration_since(*started));
        InProgress {
            count: self.started.len(),
            unfinished_work: runs().fold(Duration::ZERO, Duration::saturating_add),
            longest_running: runs().max().unwrap_or_default(),
        }
    }
}

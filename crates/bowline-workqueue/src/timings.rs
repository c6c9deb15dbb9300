//! When keys began to wait and when their runs began; kept only for a queue with metrics.

use std::time::Duration;

use bowline_clock::Instant;

use crate::arena::Slot;

/// What workers are busy with at one moment, see [`Metrics::attach`](crate::Metrics::attach).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InProgress {
    /// How many keys are with a worker.
    pub count: usize,
    /// How long they have been there, added up: `unfinished_work_seconds`.
    pub unfinished_work: Duration,
    /// How long the one that came first has been there: `longest_running_processor_seconds`.
    pub longest_running: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Timings {
    /// By slot; meaningful for entries that wait for a worker.
    queued: Vec<Instant>,
    /// As many as there are workers, in no order: few enough to be looked through.
    started: Vec<(Slot, Instant)>,
}

impl Timings {
    pub(crate) fn queued(&mut self, slot: Slot, now: Instant) {
        if self.queued.len() <= slot.index() {
            self.queued.resize(slot.index() + 1, Instant::ZERO);
        }
        self.queued[slot.index()] = now;
    }

    /// A run begins; since when the key waited.
    pub(crate) fn started(&mut self, slot: Slot, now: Instant) -> Instant {
        self.started.push((slot, now));
        self.queued[slot.index()]
    }

    /// A run ends; when it began.
    pub(crate) fn finished(&mut self, slot: Slot) -> Instant {
        let position = self.started.iter().position(|(other, _)| *other == slot);
        position.map_or(Instant::ZERO, |position| self.started.swap_remove(position).1)
    }

    pub(crate) fn in_progress(&self, now: Instant) -> InProgress {
        let runs = || self.started.iter().map(|(_, started)| now.since(*started));
        InProgress {
            count: self.started.len(),
            unfinished_work: runs().fold(Duration::ZERO, Duration::saturating_add),
            longest_running: runs().max().unwrap_or_default(),
        }
    }
}

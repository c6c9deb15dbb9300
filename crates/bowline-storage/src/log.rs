//! The bounded history of one table.

use std::collections::VecDeque;
use std::collections::vec_deque::Iter;

use crate::{Event, Options, Revision};

/// Whoever is fewer events behind than this finds its place from the end.
const NEAR: usize = 8;

/// The newest events of a table, oldest first. Pure: it knows no lock and nobody who reads it.
pub(crate) struct Log<M> {
    events: VecDeque<Event<M>>,
    /// The sum of the events' sizes.
    bytes: usize,
    options: Options,
    /// Nothing is known about times before this revision: it was compacted, or the table did not exist.
    oldest: Revision,
    /// The newest event that is no longer here. An open watch that has seen it lost nothing, whatever was compacted.
    dropped: Revision,
}

impl<M> Log<M> {
    pub(crate) fn new(options: Options, begin: Revision) -> Self {
        Self { events: VecDeque::new(), bytes: 0, options, oldest: begin, dropped: begin }
    }

    /// The oldest revision that can be gone back to.
    pub(crate) fn oldest(&self) -> Revision {
        self.oldest
    }

    /// Whether something after this revision is gone.
    pub(crate) fn lost_after(&self, revision: Revision) -> bool {
        revision < self.dropped
    }

    /// The newest event that there was.
    pub(crate) fn newest(&self) -> Revision {
        self.events.back().map_or(self.dropped, |event| event.revision)
    }

    /// All events after a revision, of those that are still here.
    pub(crate) fn after(&self, revision: Revision) -> Iter<'_, Event<M>> {
        // Those who follow closely, and those who read the present, do not search.
        let newer = self.events.iter().rev().take_while(|event| event.revision > revision).take(NEAR).count();
        let start = if newer < NEAR {
            self.events.len() - newer
        } else {
            self.events.partition_point(|event| event.revision <= revision)
        };
        self.events.range(start..)
    }

    /// Appends an event; returns those that had to go, for the caller to drop without a lock.
    pub(crate) fn push(&mut self, event: Event<M>) -> Vec<Event<M>> {
        self.bytes += event.size();
        self.events.push_back(event);
        let mut evicted = Vec::new();
        while self.events.len() > 1
            && (self.events.len() > self.options.log_events.get() || self.bytes > self.options.log_bytes)
        {
            evicted.extend(self.pop());
        }
        evicted
    }

    /// Forgets everything before a revision, except what is needed to know the table at that revision.
    pub(crate) fn compact(&mut self, up_to: Revision) -> Vec<Event<M>> {
        let mut evicted = Vec::new();
        while self.events.front().is_some_and(|event| event.revision <= up_to) {
            evicted.extend(self.pop());
        }
        self.oldest = self.oldest.max(up_to);
        evicted
    }

    fn pop(&mut self) -> Option<Event<M>> {
        let event = self.events.pop_front()?;
        self.bytes -= event.size();
        self.dropped = event.revision;
        self.oldest = self.oldest.max(event.revision);
        Some(event)
    }
}

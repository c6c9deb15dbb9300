//! The bounded history of one table.

use std::collections::VecDeque;
use std::collections::vec_deque::Iter;

use crate::{Event, Options, Revision};

/// A reader fewer events behind than this finds its position from the end.
const NEAR: usize = 8;

/// The newest events of a table, oldest first. Pure: no lock, and no knowledge of readers.
pub(crate) struct Log<M> {
    events: VecDeque<Event<M>>,
    /// The sum of the events' sizes.
    bytes: usize,
    options: Options,
    /// The start of the history: earlier revisions are compacted, or the table did not exist.
    oldest: Revision,
    /// The newest event that was dropped. An open watch that has read it lost nothing by compaction.
    dropped: Revision,
}

impl<M> Log<M> {
    pub(crate) fn new(options: Options, begin: Revision) -> Self {
        Self { events: VecDeque::new(), bytes: 0, options, oldest: begin, dropped: begin }
    }

    /// The oldest revision that can be read.
    pub(crate) fn oldest(&self) -> Revision {
        self.oldest
    }

    /// Whether an event after this revision was dropped.
    pub(crate) fn lost_after(&self, revision: Revision) -> bool {
        revision < self.dropped
    }

    /// The newest event so far, dropped or not.
    pub(crate) fn newest(&self) -> Revision {
        self.events.back().map_or(self.dropped, |event| event.revision)
    }

    /// All events after a revision that are still in the log.
    pub(crate) fn after(&self, revision: Revision) -> Iter<'_, Event<M>> {
        // Readers that are close behind, or up to date, need no search.
        let newer = self.events.iter().rev().take_while(|event| event.revision > revision).take(NEAR).count();
        let start = if newer < NEAR {
            self.events.len() - newer
        } else {
            self.events.partition_point(|event| event.revision <= revision)
        };
        self.events.range(start..)
    }

    /// Appends an event; returns the dropped ones, for the caller to free without a lock.
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

    /// Drops all history before a revision, except the events needed to read the table at that revision.
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

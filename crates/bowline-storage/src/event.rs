//! One commit, as the log and the watchers contain it.

use std::fmt;
use std::sync::Arc;

use crate::{Record, Revision};

/// The effect of a commit on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// The key was absent.
    Created,
    /// The key had another record.
    Updated,
    /// The key is absent now.
    Deleted,
}

/// One commit. Cloning it clones references.
#[non_exhaustive]
pub struct Event<M> {
    /// The commit.
    pub revision: Revision,
    /// The effect of the commit.
    pub change: EventType,
    /// The record before; `None` exactly if the key was absent.
    pub previous: Option<Arc<Record<M>>>,
    /// The record after; for a delete, the last state from the delete. Its revision is the commit's.
    pub record: Arc<Record<M>>,
}

impl<M> Event<M> {
    pub(crate) fn put(previous: Option<Arc<Record<M>>>, record: Arc<Record<M>>) -> Self {
        let change = if previous.is_some() { EventType::Updated } else { EventType::Created };
        Self { revision: record.revision, change, previous, record }
    }

    pub(crate) fn delete(previous: Arc<Record<M>>, record: Arc<Record<M>>) -> Self {
        Self { revision: record.revision, change: EventType::Deleted, previous: Some(previous), record }
    }

    /// The key that was written.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.record.key
    }

    /// The record after: `None` exactly after a delete.
    #[must_use]
    pub fn current(&self) -> Option<&Arc<Record<M>>> {
        (self.change != EventType::Deleted).then_some(&self.record)
    }

    /// Stored bytes of the key before and after this event.
    pub(crate) fn stored(&self) -> (usize, usize) {
        let bytes = |record: Option<&Arc<Record<M>>>| record.map_or(0, |record| record.size());
        (bytes(self.previous.as_ref()), bytes(self.current()))
    }

    /// The bytes that only the log keeps alive because of this event. A record is replaced once, by an event after its
    /// own: so each is counted once, and leaves the log with the event that counts it.
    pub(crate) fn size(&self) -> usize {
        let replaced = self.previous.as_ref().map_or(0, |record| record.size());
        let last = if self.change == EventType::Deleted { self.record.size() } else { 0 };
        size_of::<Self>() + replaced + last
    }
}

impl<M> Clone for Event<M> {
    fn clone(&self) -> Self {
        Self {
            revision: self.revision,
            change: self.change,
            previous: self.previous.clone(),
            record: self.record.clone(),
        }
    }
}

impl<M> fmt::Debug for Event<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Event")
            .field("revision", &self.revision)
            .field("change", &self.change)
            .field("previous", &self.previous)
            .field("record", &self.record)
            .finish()
    }
}

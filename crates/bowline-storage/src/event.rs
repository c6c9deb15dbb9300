//! One commit, as the log and the watchers see it.

use std::fmt;
use std::sync::Arc;

use crate::{Record, Revision};

/// What a commit did to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
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
    /// What it did.
    pub change: Change,
    /// What was stored before; `None` exactly if the key was absent.
    pub previous: Option<Arc<Record<M>>>,
    /// What is stored now; for a delete, the last state as the delete gave it. Its revision is the commit's.
    pub record: Arc<Record<M>>,
}

impl<M> Event<M> {
    pub(crate) fn put(previous: Option<Arc<Record<M>>>, record: Arc<Record<M>>) -> Self {
        let change = if previous.is_some() { Change::Updated } else { Change::Created };
        Self { revision: record.revision, change, previous, record }
    }

    pub(crate) fn delete(previous: Arc<Record<M>>, record: Arc<Record<M>>) -> Self {
        Self { revision: record.revision, change: Change::Deleted, previous: Some(previous), record }
    }

    /// The key that was written.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.record.key
    }

    /// What is stored now: `None` exactly after a delete.
    #[must_use]
    pub fn current(&self) -> Option<&Arc<Record<M>>> {
        (self.change != Change::Deleted).then_some(&self.record)
    }

    /// The bytes that are kept alive by the log alone because of this event. A record is replaced once, and the event
    /// of that is younger than its own: so each is counted once, and goes from the log with the event that counts it.
    pub(crate) fn size(&self) -> usize {
        let replaced = self.previous.as_ref().map_or(0, |record| record.size());
        let last = if self.change == Change::Deleted { self.record.size() } else { 0 };
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

//! The one sequence of revisions, which every commit passes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Event, EventType, Revision};

/// Assigns revisions, one commit at a time.
///
/// A commit is built, (journalled,) applied and published, in this order, under an exclusive lock. The caller holds the
/// lock of its table from before this until after it. So a reader that holds the lock of a table gets from `newest` a
/// revision up to which the table is complete, and after which it has nothing.
pub(crate) struct Sequence {
    newest: AtomicU64,
    max_bytes: usize,
    /// Bytes of all current records.
    bytes: Mutex<usize>,
}

impl Sequence {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { newest: AtomicU64::new(Revision::FIRST.get()), max_bytes, bytes: Mutex::new(0) }
    }

    pub(crate) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// The newest commit that was published.
    pub(crate) fn newest(&self) -> Revision {
        Revision::new(self.newest.load(Ordering::Acquire))
    }

    /// Subtracts the records of a dropped table.
    pub(crate) fn release(&self, bytes: usize) {
        *self.turn() -= bytes;
    }

    /// Locks the order of commits. `make` runs before the first change, so that a panic leaves no partial change.
    fn turn(&self) -> MutexGuard<'_, usize> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits the event that `make` builds. If `make` panics, nothing changes. If the store is full, nothing changes
    /// either, and the event is returned for the caller to drop without a lock.
    ///
    /// A journal would go between `make` and `apply`: it gets every event once, in order, before any reader.
    pub(crate) fn commit<M, T>(
        &self,
        make: impl FnOnce(Revision) -> Event<M>,
        apply: impl FnOnce(Event<M>) -> T,
    ) -> Result<T, Event<M>> {
        let mut bytes = self.turn();
        let revision = self.newest().next();
        let event = make(revision);
        let (before, after) = event.stored();
        let limit = match event.change {
            EventType::Created => self.max_bytes,
            EventType::Updated => self.max_bytes.saturating_add(self.max_bytes / 16),
            EventType::Deleted => usize::MAX,
        };
        let total = *bytes - before + after;
        if total > limit && after > before {
            return Err(event);
        }
        *bytes = total;
        let applied = apply(event);
        self.newest.store(revision.get(), Ordering::Release);
        Ok(applied)
    }
}

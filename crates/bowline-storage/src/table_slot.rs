//! One table of a store: its lock and its waiters.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::task::Waker;

use crate::sequence::Sequence;
use crate::table::Table;
use crate::waiters::Waiters;
use crate::{Event, Record, Revision, WriteError};

/// A table behind its lock. Locks are taken in this order: the table's, then the sequence's or the waiters'.
pub(crate) struct TableSlot<M> {
    /// `None` once the table is dropped.
    table: RwLock<Option<Table<M>>>,
    waiters: Mutex<Waiters>,
}

impl<M> TableSlot<M> {
    pub(crate) fn new(table: Table<M>) -> Self {
        Self { table: RwLock::new(Some(table)), waiters: Mutex::new(Waiters::default()) }
    }

    /// Locks the table for reading. A panic under these locks leaves no partial change: `make` runs before the first
    /// change.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Option<Table<M>>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits the event that `make` builds from the replaced record and the new revision.
    pub(crate) fn commit(
        &self,
        sequence: &Sequence,
        key: &str,
        expected: Option<Revision>,
        make: impl FnOnce(Option<Arc<Record<M>>>, Revision) -> Event<M>,
    ) -> Result<Arc<Record<M>>, WriteError<M>> {
        let mut guard = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let table = guard.as_mut().ok_or(WriteError::NoTable)?;
        let previous = table.expect(key, expected)?;
        let committed = sequence.commit(
            |revision| make(previous, revision),
            |event| {
                let record = event.record.clone();
                (record, table.apply(event))
            },
        );
        let (record, evicted) = match committed {
            Ok(committed) => committed,
            Err(event) => {
                drop(guard);
                drop(event);
                return Err(WriteError::Full { max_bytes: sequence.max_bytes() });
            }
        };
        let wakers = self.waiters().take_wakers(&record.key, record.revision);
        drop(guard);
        // Foreign code and deallocation run after the lock is released.
        wakers.into_iter().for_each(Waker::wake);
        drop(evicted);
        Ok(record)
    }

    pub(crate) fn compact(&self, up_to: Revision) {
        let mut guard = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let evicted = guard.as_mut().map(|table| table.compact(up_to));
        drop(guard);
        drop(evicted);
    }

    /// Drops the table and ends its watches.
    pub(crate) fn clear(&self, sequence: &Sequence) {
        let mut guard = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let table = guard.take();
        let wakers = self.waiters().take_all_wakers(sequence.newest());
        drop(guard);
        sequence.release(table.as_ref().map_or(0, Table::bytes));
        wakers.into_iter().for_each(Waker::wake);
        drop(table);
    }
}

//! The place of one table in a store: its lock, and those who wait at it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::task::Waker;

use crate::sequence::Sequence;
use crate::table::Table;
use crate::waiters::Waiters;
use crate::{Event, Record, Revision, WriteError};

/// A table behind its lock. Locks are taken in this order: the table's, then the sequence's or the waiters'.
pub(crate) struct Shelf<M> {
    /// `None` once the table is dropped.
    table: RwLock<Option<Table<M>>>,
    waiters: Mutex<Waiters>,
}

impl<M> Shelf<M> {
    pub(crate) fn new(table: Table<M>) -> Self {
        Self { table: RwLock::new(Some(table)), waiters: Mutex::new(Waiters::default()) }
    }

    /// The table, as long as the guard lives. Nothing under these locks is left half done by a panic: `make` runs
    /// before the first change.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Option<Table<M>>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits what `make` makes of the record that is replaced and of the new revision.
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
        let (record, evicted) = sequence.commit(
            |revision| make(previous, revision),
            |event| {
                let record = event.record.clone();
                (record, table.apply(event))
            },
        );
        let wakers = self.waiters().call(&record.key, record.revision);
        drop(guard);
        // Foreign code, and memory to give back: not under the lock.
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
    pub(crate) fn clear(&self, newest: Revision) {
        let mut guard = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let table = guard.take();
        let wakers = self.waiters().call_all(newest);
        drop(guard);
        wakers.into_iter().for_each(Waker::wake);
        drop(table);
    }
}

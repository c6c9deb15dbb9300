//! The public interface of the store.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::sequence::Sequence;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::table_slot::TableSlot;
use crate::table_slots::TableSlots;
use crate::{
    Event, ListError, ListRequest, Listing, NewRecord, Options, Record, Revision, Watch, WatchError,
    WriteError,
};

/// A table of a store. An ID is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(u32);

/// Tables of records with one sequence of revisions. Clones share the store.
///
/// `M` is the user's metadata of a record. Its `Drop` never runs under a lock of the store.
pub struct Store<M> {
    shared: Arc<Shared<M>>,
}

struct Shared<M> {
    options: Options,
    sequence: Sequence,
    slots: TableSlots<M>,
    names: Mutex<Names>,
}

/// The existing tables, needed only to create and drop them.
#[derive(Default)]
struct Names {
    ids: BTreeMap<Box<str>, TableId>,
    next: u32,
}

impl<M> Store<M> {
    /// An empty store, at [`Revision::FIRST`].
    #[must_use]
    pub fn new(options: Options) -> Self {
        let (sequence, slots, names) =
            (Sequence::new(options.max_bytes), TableSlots::new(), Mutex::default());
        Self { shared: Arc::new(Shared { options, sequence, slots, names }) }
    }

    /// The table with that name, created if it does not exist. Its history begins now: earlier revisions count as
    /// compacted. Creating a table is not a commit.
    pub fn create_table(&self, name: &str) -> TableId {
        let mut names = self.shared.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = names.ids.get(name) {
            return *id;
        }
        let id = TableId(names.next);
        let table = Table::new(self.shared.options, self.revision());
        self.shared.slots.set(id.0, TableSlot::new(table));
        names.next = names.next.saturating_add(1);
        names.ids.insert(name.into(), id);
        id
    }

    /// Drops a table with its records. From then on it reads as empty, writes to it fail, and its watches end with
    /// [`WatchClosed::TableDropped`](crate::WatchClosed::TableDropped); its records get no events. A table created
    /// later under the same name is another one. Dropping a table is not a commit.
    pub fn drop_table(&self, table: TableId) {
        let mut names = self.shared.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.ids.retain(|_, id| *id != table);
        drop(names);
        if let Some(slot) = self.slot(table) {
            slot.clear(&self.shared.sequence);
        }
    }

    /// The newest commit of all tables.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.shared.sequence.newest()
    }

    /// The current record of a key.
    #[must_use]
    pub fn get(&self, table: TableId, key: &str) -> Option<Arc<Record<M>>> {
        self.slot(table)?.read().as_ref()?.get(key).cloned()
    }

    /// Stores a record, if the key is at revision `expected`, or absent if that is `None`.
    ///
    /// `make` is called at most once, with the revision of the new record. All writers wait for it, and the table's
    /// readers too: it must be fast, and must not call the store. If it panics, nothing is written and the revision
    /// stays unused.
    ///
    /// # Errors
    /// [`WriteError::Mismatch`] if the key has another revision, [`WriteError::NoTable`] if the table was dropped,
    /// [`WriteError::Full`] if the records would exceed [`Options::max_bytes`].
    pub fn put(
        &self,
        table: TableId,
        key: &str,
        expected: Option<Revision>,
        make: impl FnOnce(Revision) -> NewRecord<M>,
    ) -> Result<Arc<Record<M>>, WriteError<M>> {
        let slot = self.slot(table).ok_or(WriteError::NoTable)?;
        slot.commit(&self.shared.sequence, key, expected, |previous, revision| {
            let (key, created) = match &previous {
                Some(previous) => (previous.key.clone(), previous.created),
                None => (key.into(), revision),
            };
            let record = make(revision).into_record(key, revision, created);
            Event::put(previous, record)
        })
    }

    /// Deletes a record, if the key is at revision `expected`. Returns the last state, which watchers get: `make`
    /// builds it with the revision of the deletion, under the same rules as in [`Store::put`].
    ///
    /// # Errors
    /// [`WriteError::Mismatch`] if the key has another revision, [`WriteError::NoTable`] if the table was dropped.
    pub fn delete(
        &self,
        table: TableId,
        key: &str,
        expected: Revision,
        make: impl FnOnce(Revision) -> NewRecord<M>,
    ) -> Result<Arc<Record<M>>, WriteError<M>> {
        let slot = self.slot(table).ok_or(WriteError::NoTable)?;
        slot.commit(&self.shared.sequence, key, Some(expected), |previous, revision| {
            let contents = make(revision);
            match previous {
                Some(previous) => {
                    let record = contents.into_record(previous.key.clone(), revision, previous.created);
                    Event::delete(previous, record)
                }
                None => unreachable!("a key that is at a revision is present"),
            }
        })
    }

    /// Lists records in key order, at one revision. Takes only the table's lock, for reading.
    ///
    /// An older revision is read by undoing later commits, so its cost grows with the writes to the table since. A
    /// dropped table is empty at any revision.
    ///
    /// # Errors
    /// [`ListError::Compacted`] and [`ListError::Future`] if [`ListRequest::at`] is before or after the readable
    /// revisions.
    pub fn list(&self, table: TableId, list: ListRequest<'_>) -> Result<Listing<M>, ListError> {
        let guard = self.slot(table).map(TableSlot::read);
        // The newest revision is read under the lock: see `Sequence`.
        let newest = self.revision();
        let snapshot = match guard.as_deref() {
            Some(Some(table)) => table.snapshot(list, newest),
            _ => match list.at {
                Some(at) if at > newest => Err(ListError::Future { at, newest }),
                at => Ok(Snapshot::empty(at.unwrap_or(newest))),
            },
        };
        drop(guard);
        Ok(snapshot?.into_listing())
    }

    /// Watches a table from a revision on: all later events whose keys have the prefix, in commit order, each once.
    ///
    /// # Errors
    /// [`WatchError::Compacted`] if events after the revision may be dropped, [`WatchError::Future`] if the revision is
    /// not committed: the client got it from another store. A dropped table returns a watch that is closed.
    pub fn watch(&self, table: TableId, prefix: &str, after: Revision) -> Result<Watch<M>, WatchError> {
        let newest = self.revision();
        if after > newest {
            return Err(WatchError::Future { after, newest });
        }
        if let Some(slot) = self.slot(table)
            && let Some(table) = &*slot.read()
            && after < table.log().oldest()
        {
            return Err(WatchError::Compacted { after, oldest: table.log().oldest() });
        }
        Ok(Watch::new(self.clone(), table, prefix, after))
    }

    /// Lists the records of a table with the prefix, and watches all later events.
    #[must_use]
    pub fn list_and_watch(&self, table: TableId, prefix: &str) -> (Listing<M>, Watch<M>) {
        let list = ListRequest { prefix, ..ListRequest::default() };
        let listing = self.list(table, list).unwrap_or_else(|error| unreachable!("the present: {error}"));
        // A watch starts at a position in the log: commits between these two lines come after it.
        let watch = Watch::new(self.clone(), table, prefix, listing.revision);
        (listing, watch)
    }

    /// Drops the history of all tables before a revision: earlier revisions can no longer be read or watched from, but
    /// the revision itself can. A revision in the future counts as the newest. Open watches that have read the dropped
    /// events are not affected.
    pub fn compact(&self, up_to: Revision) {
        let up_to = up_to.min(self.revision());
        for slot in self.shared.slots.iter() {
            slot.compact(up_to);
        }
    }

    pub(crate) fn slot(&self, table: TableId) -> Option<&TableSlot<M>> {
        self.shared.slots.get(table.0)
    }
}

impl<M> Default for Store<M> {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl<M> Clone for Store<M> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<M> fmt::Debug for Store<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Store").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

//! The store: what its users call.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::sequence::Sequence;
use crate::shelf::Shelf;
use crate::shelves::Shelves;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::{
    Contents, Event, List, ListError, Listing, Options, Record, Revision, Watch, WatchError, WriteError,
};

/// A table of a store. It is never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(u32);

/// Tables of records under one sequence of revisions. Clones are handles to the same store.
///
/// `M` is what is kept beside the bytes of a record. Its `Drop` never runs under a lock of the store.
pub struct Store<M> {
    shared: Arc<Shared<M>>,
}

struct Shared<M> {
    options: Options,
    sequence: Sequence,
    shelves: Shelves<M>,
    names: Mutex<Names>,
}

/// Which tables there are. Nobody needs to know but who creates or drops one.
#[derive(Default)]
struct Names {
    ids: BTreeMap<Box<str>, TableId>,
    next: u32,
}

impl<M> Store<M> {
    /// An empty store, at [`Revision::FIRST`].
    #[must_use]
    pub fn new(options: Options) -> Self {
        let (sequence, shelves, names) = (Sequence::new(), Shelves::new(), Mutex::default());
        Self { shared: Arc::new(Shared { options, sequence, shelves, names }) }
    }

    /// The table with that name; it is created if there is none. Its history begins now: earlier revisions count as
    /// compacted. This is no commit.
    pub fn create_table(&self, name: &str) -> TableId {
        let mut names = self.shared.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = names.ids.get(name) {
            return *id;
        }
        let id = TableId(names.next);
        let table = Table::new(self.shared.options, self.revision());
        self.shared.shelves.set(id.0, Shelf::new(table));
        names.next = names.next.saturating_add(1);
        names.ids.insert(name.into(), id);
        id
    }

    /// Drops a table and all that is in it. From then on it reads as empty, writes to it fail, and its watches end with
    /// [`Closed::TableDropped`](crate::Closed::TableDropped); there are no events for its records. A table that is
    /// created under the same name is another one. This is no commit.
    pub fn drop_table(&self, table: TableId) {
        let mut names = self.shared.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.ids.retain(|_, id| *id != table);
        drop(names);
        if let Some(shelf) = self.shelf(table) {
            shelf.clear(self.revision());
        }
    }

    /// The newest commit, of any table.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.shared.sequence.newest()
    }

    /// What is stored under a key now.
    #[must_use]
    pub fn get(&self, table: TableId, key: &str) -> Option<Arc<Record<M>>> {
        self.shelf(table)?.read().as_ref()?.get(key).cloned()
    }

    /// Stores a record, if the key is at revision `expected`, or absent if that is `None`.
    ///
    /// `make` is called at most once, with the revision that the record will have. All writers wait for it, and the
    /// table's readers too: it must be quick, and must not call the store. If it panics, nothing has happened and the
    /// revision is not used.
    ///
    /// # Errors
    /// [`WriteError::Mismatch`] if the key is elsewhere, [`WriteError::NoTable`] if the table was dropped.
    pub fn put(
        &self,
        table: TableId,
        key: &str,
        expected: Option<Revision>,
        make: impl FnOnce(Revision) -> Contents<M>,
    ) -> Result<Arc<Record<M>>, WriteError<M>> {
        let shelf = self.shelf(table).ok_or(WriteError::NoTable)?;
        shelf.commit(&self.shared.sequence, key, expected, |previous, revision| {
            let (key, created) = match &previous {
                Some(previous) => (previous.key.clone(), previous.created),
                None => (key.into(), revision),
            };
            let record = make(revision).into_record(key, revision, created);
            Event::put(previous, record)
        })
    }

    /// Deletes a record, if the key is at revision `expected`. Returns the last state, which is what watchers see: made
    /// by `make` with the revision of the deletion, under the same rules as in [`Store::put`].
    ///
    /// # Errors
    /// [`WriteError::Mismatch`] if the key is elsewhere, [`WriteError::NoTable`] if the table was dropped.
    pub fn delete(
        &self,
        table: TableId,
        key: &str,
        expected: Revision,
        make: impl FnOnce(Revision) -> Contents<M>,
    ) -> Result<Arc<Record<M>>, WriteError<M>> {
        let shelf = self.shelf(table).ok_or(WriteError::NoTable)?;
        shelf.commit(&self.shared.sequence, key, Some(expected), |previous, revision| {
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

    /// Lists records in key order, as of one revision. Takes no lock but the table's, and that for reading.
    ///
    /// An older revision is read by undoing what came after: it costs as much more as was written to the table since.
    /// A table that was dropped is empty, whenever.
    ///
    /// # Errors
    /// [`ListError::Compacted`] and [`ListError::Future`] if [`List::at`] is before or after what can be read.
    pub fn list(&self, table: TableId, list: List<'_>) -> Result<Listing<M>, ListError> {
        let guard = self.shelf(table).map(Shelf::read);
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

    /// Follows a table from a revision on: all events after it whose keys start with the prefix, in the order of their
    /// commits, each once.
    ///
    /// # Errors
    /// [`WatchError::Compacted`] if events after the revision may be gone, [`WatchError::Future`] if the revision has
    /// not been committed: whoever has seen it has seen another store. A table that was dropped gives a watch that is
    /// closed.
    pub fn watch(&self, table: TableId, prefix: &str, after: Revision) -> Result<Watch<M>, WatchError> {
        let newest = self.revision();
        if after > newest {
            return Err(WatchError::Future { after, newest });
        }
        if let Some(shelf) = self.shelf(table)
            && let Some(table) = &*shelf.read()
            && after < table.log().oldest()
        {
            return Err(WatchError::Compacted { after, oldest: table.log().oldest() });
        }
        Ok(Watch::new(self.clone(), table, prefix, after))
    }

    /// All of a table whose keys start with the prefix, and all that happens to it from then on.
    #[must_use]
    pub fn list_and_watch(&self, table: TableId, prefix: &str) -> (Listing<M>, Watch<M>) {
        let list = List { prefix, ..List::default() };
        let listing = self.list(table, list).unwrap_or_else(|error| unreachable!("the present: {error}"));
        // A watch is a place in the log: what is committed between these two lines comes after it.
        let watch = Watch::new(self.clone(), table, prefix, listing.revision);
        (listing, watch)
    }

    /// Forgets all history up to a revision, of all tables: nothing before it can be read or watched from any more, but
    /// the revision itself can. A revision in the future counts as the newest. Watches that are open and have seen the
    /// events that go are not disturbed.
    pub fn compact(&self, up_to: Revision) {
        let up_to = up_to.min(self.revision());
        for shelf in self.shared.shelves.iter() {
            shelf.compact(up_to);
        }
    }

    pub(crate) fn shelf(&self, table: TableId) -> Option<&Shelf<M>> {
        self.shared.shelves.get(table.0)
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

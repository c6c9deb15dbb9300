//! The records of one table, and their history. Pure: no lock, no waker.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::log::Log;
use crate::range::KeyRange;
use crate::snapshot::Snapshot;
use crate::{Event, List, ListError, Options, Record, Revision, WriteError};

/// The records of one table now, and the log that leads there.
pub(crate) struct Table<M> {
    records: BTreeMap<Arc<str>, Arc<Record<M>>>,
    log: Log<M>,
}

impl<M> Table<M> {
    /// A table that came to be after that revision: it has no history before.
    pub(crate) fn new(options: Options, begin: Revision) -> Self {
        Self { records: BTreeMap::new(), log: Log::new(options, begin) }
    }

    pub(crate) fn log(&self) -> &Log<M> {
        &self.log
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Record<M>>> {
        self.records.get(key)
    }

    /// What a write that expects the key there replaces.
    pub(crate) fn expect(
        &self,
        key: &str,
        expected: Option<Revision>,
    ) -> Result<Option<Arc<Record<M>>>, WriteError<M>> {
        let found = self.records.get(key).cloned();
        if found.as_ref().map(|found| found.revision) == expected {
            Ok(found)
        } else {
            Err(WriteError::Mismatch { key: key.into(), expected, found })
        }
    }

    /// Takes an event that [`Table::expect`] agreed to; returns the events that the log had to let go.
    pub(crate) fn apply(&mut self, event: Event<M>) -> Vec<Event<M>> {
        match event.current() {
            Some(record) => self.records.insert(record.key.clone(), record.clone()),
            None => self.records.remove(event.key()),
        };
        self.log.push(event)
    }

    pub(crate) fn compact(&mut self, up_to: Revision) -> Vec<Event<M>> {
        self.log.compact(up_to)
    }

    /// What there is to list, when the store is at `newest`.
    pub(crate) fn snapshot(&self, list: List<'_>, newest: Revision) -> Result<Snapshot<M>, ListError> {
        let at = list.at.unwrap_or(newest);
        if at > newest {
            return Err(ListError::Future { at, newest });
        }
        let oldest = self.log.oldest();
        if at < oldest {
            return Err(ListError::Compacted { at, oldest });
        }
        let range = KeyRange::new(list.prefix, list.after);
        let present = range.bounds().map(|bounds| self.records.range::<str, _>(bounds)).into_iter().flatten();
        let present = present.map(|(_, record)| record);
        if self.log.newest() <= at {
            // Nothing to undo: the records need not even be looked at.
            return Ok(Snapshot::new(at, list.limit, present, std::iter::empty()));
        }
        let replaced = self.log.after(at).filter_map(|event| event.previous.as_ref());
        let replaced = replaced.filter(|record| record.revision <= at && range.contains(&record.key));
        Ok(Snapshot::new(at, list.limit, present.filter(|record| record.revision <= at), replaced))
    }
}

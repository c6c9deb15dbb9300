//! The records of one table, and their history. Pure: no lock, no waker.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::log::Log;
use crate::range::KeyRange;
use crate::snapshot::Snapshot;
use crate::{Event, ListError, ListRequest, Options, Record, Revision, WriteError};

/// The current records of one table, and its log.
pub(crate) struct Table<M> {
    records: BTreeMap<Arc<str>, Arc<Record<M>>>,
    log: Log<M>,
}

impl<M> Table<M> {
    /// A table created after that revision: it has no earlier history.
    pub(crate) fn new(options: Options, begin: Revision) -> Self {
        Self { records: BTreeMap::new(), log: Log::new(options, begin) }
    }

    pub(crate) fn log(&self) -> &Log<M> {
        &self.log
    }

    /// The bytes of its records. It visits each record, so it is called only for a dropped table.
    pub(crate) fn bytes(&self) -> usize {
        self.records.values().map(|record| record.size()).sum()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Record<M>>> {
        self.records.get(key)
    }

    /// The record that a write replaces, if it is at the expected revision.
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

    /// Applies an event after [`Table::expect`] succeeded; returns the events that the log dropped.
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

    /// Collects the records of a list, when the store is at `newest`.
    pub(crate) fn snapshot(&self, list: ListRequest<'_>, newest: Revision) -> Result<Snapshot<M>, ListError> {
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
            // There is nothing to undo, so the records need not be checked.
            return Ok(Snapshot::new(at, list.limit, present, std::iter::empty()));
        }
        let replaced = self.log.after(at).filter_map(|event| event.previous.as_ref());
        let replaced = replaced.filter(|record| record.revision <= at && range.contains(&record.key));
        Ok(Snapshot::new(at, list.limit, present.filter(|record| record.revision <= at), replaced))
    }
}

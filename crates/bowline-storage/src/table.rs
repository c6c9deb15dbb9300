//! The records of one table, and their history. Pure: no lock, no waker.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::log::Log;
use crate::range::KeyRange;
use crate::{Event, List, ListError, Listing, Options, Record, Revision, WriteError};

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

    /// Lists, when the store is at `newest`.
    pub(crate) fn list(&self, list: List<'_>, newest: Revision) -> Result<Listing<M>, ListError> {
        let revision = list.at.unwrap_or(newest);
        if revision > newest {
            return Err(ListError::Future { at: revision, newest });
        }
        let oldest = self.log.oldest();
        if revision < oldest {
            return Err(ListError::Compacted { at: revision, oldest });
        }
        let range = KeyRange::new(list.prefix, list.after);
        let present = range.bounds().map(|bounds| self.records.range::<str, _>(bounds)).into_iter().flatten();
        let present = present.map(|(_, record)| record);
        let undone = self.undone(&range, revision);
        let (items, remaining) = if undone.is_empty() {
            page(present, list.limit)
        } else {
            page(as_it_was(present, undone), list.limit)
        };
        Ok(Listing { revision, items, remaining })
    }

    /// What was there at a revision, for those keys that were written since.
    fn undone(&self, range: &KeyRange<'_>, at: Revision) -> Undone<'_, M> {
        let mut undone = BTreeMap::new();
        for event in self.log.after(at).filter(|event| range.contains(event.key())) {
            // The first write since replaced what was there.
            undone.entry(event.key()).or_insert(event.previous.as_ref());
        }
        undone
    }
}

type Undone<'a, M> = BTreeMap<&'a str, Option<&'a Arc<Record<M>>>>;

/// The records that are there, with those keys that were written since as they were before; in key order.
fn as_it_was<'a, M>(
    present: impl Iterator<Item = &'a Arc<Record<M>>>,
    undone: Undone<'a, M>,
) -> impl Iterator<Item = &'a Arc<Record<M>>> {
    let (mut present, mut undone) = (present.peekable(), undone.into_iter().peekable());
    std::iter::from_fn(move || {
        loop {
            let Some((key, _)) = undone.peek() else { return present.next() };
            match present.peek().map_or(Ordering::Greater, |record| (*record.key).cmp(key)) {
                Ordering::Less => return present.next(),
                Ordering::Equal => drop(present.next()),
                Ordering::Greater => {}
            }
            if let Some((_, Some(record))) = undone.next() {
                return Some(record);
            }
        }
    })
}

/// The first records, and how many there are after them.
fn page<'a, M: 'a>(
    mut records: impl Iterator<Item = &'a Arc<Record<M>>>,
    limit: Option<NonZeroUsize>,
) -> (Vec<Arc<Record<M>>>, usize) {
    match limit {
        None => (records.cloned().collect(), 0),
        Some(limit) => {
            let items = records.by_ref().take(limit.get()).cloned().collect();
            (items, records.count())
        }
    }
}

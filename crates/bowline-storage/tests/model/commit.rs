//! A commit in the model: by value, and comparable.

use bowline_storage::{Event, EventType, Listing, Record, TableId};

/// A version in the model; comparable, unlike a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) key: String,
    pub(crate) revision: u64,
    pub(crate) created: u64,
    pub(crate) body: Vec<u8>,
    pub(crate) meta: u64,
}

impl Version {
    pub(crate) fn of(record: &Record<u64>) -> Self {
        Self {
            key: record.key.to_string(),
            revision: record.revision.get(),
            created: record.created.get(),
            body: record.body.to_vec(),
            meta: record.meta,
        }
    }

    pub(crate) fn size(&self) -> usize {
        size_of::<Record<u64>>() + self.key.len() + self.body.len()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) table: TableId,
    pub(crate) revision: u64,
    pub(crate) change: EventType,
    pub(crate) previous: Option<Version>,
    pub(crate) record: Version,
}

impl Commit {
    pub(crate) fn of(table: TableId, event: &Event<u64>) -> Self {
        assert_eq!(event.current().is_none(), event.change == EventType::Deleted);
        let previous = event.previous.as_ref().map(|previous| Version::of(previous));
        let (revision, record) = (event.revision.get(), Version::of(&event.record));
        Self { table, revision, change: event.change, previous, record }
    }

    pub(crate) fn size(&self) -> usize {
        let last = if self.change == EventType::Deleted { self.record.size() } else { 0 };
        size_of::<Event<u64>>() + last + self.previous.as_ref().map_or(0, Version::size)
    }

    pub(crate) fn concerns(&self, table: TableId, prefix: &str) -> bool {
        self.table == table && self.record.key.starts_with(prefix)
    }
}

pub(crate) fn versions(listing: &Listing<u64>) -> Vec<Version> {
    listing.items.iter().map(|record| Version::of(record)).collect()
}

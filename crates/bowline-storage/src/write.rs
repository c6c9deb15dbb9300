//! Errors of writes.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::{Record, Revision};

/// A write failed; nothing was written.
#[derive(Error)]
#[non_exhaustive]
pub enum WriteError<M> {
    /// The key does not have the revision that the writer expected.
    #[error("key {key:?} is {}, the write expects it {}: read it and retry", place(found.as_ref().map(|found| found.revision)), place(*expected))]
    Mismatch {
        /// The key.
        key: Box<str>,
        /// The expected revision; `None` for absent.
        expected: Option<Revision>,
        /// The stored record; `None` for absent.
        found: Option<Arc<Record<M>>>,
    },
    /// The table was dropped, or belongs to another store.
    #[error("there is no such table: it was dropped")]
    NoTable,
    /// The store has reached its maximum of bytes.
    #[error("the store is full: its records may have {max_bytes} bytes; delete some, or raise the limit")]
    Full {
        /// The limit.
        max_bytes: usize,
    },
}

impl<M> WriteError<M> {
    /// The stored record, for a mismatch.
    #[must_use]
    pub fn found(&self) -> Option<&Arc<Record<M>>> {
        match self {
            Self::Mismatch { found, .. } => found.as_ref(),
            Self::NoTable | Self::Full { .. } => None,
        }
    }
}

fn place(revision: Option<Revision>) -> String {
    revision.map_or_else(|| "absent".to_owned(), |revision| format!("at revision {revision}"))
}

impl<M> fmt::Debug for WriteError<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mismatch { key, expected, found } => formatter
                .debug_struct("Mismatch")
                .field("key", key)
                .field("expected", expected)
                .field("found", found)
                .finish(),
            Self::NoTable => formatter.write_str("NoTable"),
            Self::Full { max_bytes } => formatter.debug_struct("Full").field("max_bytes", max_bytes).finish(),
        }
    }
}

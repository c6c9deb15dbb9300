//! What keeps a write from being committed.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::{Record, Revision};

/// Why nothing was written.
#[derive(Error)]
#[non_exhaustive]
pub enum WriteError<M> {
    /// The key is not at the revision that the writer expected.
    #[error("key {key:?} is {}, the write expects it {}: read it again", place(found.as_ref().map(|found| found.revision)), place(*expected))]
    Mismatch {
        /// The key.
        key: Box<str>,
        /// Where the writer expected it; `None` for absent.
        expected: Option<Revision>,
        /// What is there; `None` for nothing.
        found: Option<Arc<Record<M>>>,
    },
    /// The table was dropped, or is not of this store.
    #[error("there is no such table: it was dropped")]
    NoTable,
}

impl<M> WriteError<M> {
    /// What is stored under the key, if that is why.
    #[must_use]
    pub fn found(&self) -> Option<&Arc<Record<M>>> {
        match self {
            Self::Mismatch { found, .. } => found.as_ref(),
            Self::NoTable => None,
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
        }
    }
}

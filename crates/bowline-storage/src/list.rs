//! What to list, and what comes of it.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use thiserror::Error;

use crate::{Record, Revision};

/// What to list; the default is all of a table, now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct List<'a> {
    /// Only keys that start with this.
    pub prefix: &'a str,
    /// Only keys that are greater than this: the last key of the page before.
    pub after: Option<&'a str>,
    /// Exactly as it was after this commit; `None` for the newest.
    pub at: Option<Revision>,
    /// At most so many records.
    pub limit: Option<NonZeroUsize>,
}

/// Records of a table in key order, all as of one revision.
#[non_exhaustive]
pub struct Listing<M> {
    /// The revision that this is the state of. The next page is asked for at this revision.
    pub revision: Revision,
    /// The records.
    pub items: Vec<Arc<Record<M>>>,
    /// How many more there are, of the same prefix at the same revision, after the last item.
    pub remaining: usize,
}

impl<M> Listing<M> {
    /// Whether the limit cut it off.
    #[must_use]
    pub fn more(&self) -> bool {
        self.remaining > 0
    }
}

impl<M> Clone for Listing<M> {
    fn clone(&self) -> Self {
        Self { revision: self.revision, items: self.items.clone(), remaining: self.remaining }
    }
}

impl<M> fmt::Debug for Listing<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Listing")
            .field("revision", &self.revision)
            .field("items", &self.items)
            .field("remaining", &self.remaining)
            .finish()
    }
}

/// Why there is no listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ListError {
    /// The history of that time is gone.
    #[error("revision {at} is compacted: the oldest is {oldest}, list without a revision")]
    Compacted {
        /// What was asked for.
        at: Revision,
        /// The oldest revision that can be read.
        oldest: Revision,
    },
    /// The revision has not been committed yet.
    #[error("revision {at} is in the future: the newest is {newest}, try again later")]
    Future {
        /// What was asked for.
        at: Revision,
        /// The newest revision.
        newest: Revision,
    },
}

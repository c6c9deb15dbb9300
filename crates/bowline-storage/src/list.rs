//! Requests for lists, and their results.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use thiserror::Error;

use crate::{Record, Revision};

/// A request for a list. Default: the whole table at the newest revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListRequest<'a> {
    /// Only keys with this prefix.
    pub prefix: &'a str,
    /// Only keys greater than this: the last key of the previous page.
    pub after: Option<&'a str>,
    /// The state after exactly this commit; `None` for the newest.
    pub at: Option<Revision>,
    /// Maximum number of records.
    pub limit: Option<NonZeroUsize>,
}

/// Records of a table in key order, at one revision.
#[non_exhaustive]
pub struct Listing<M> {
    /// The revision of this state. Request the next page at this revision.
    pub revision: Revision,
    /// The records.
    pub items: Vec<Arc<Record<M>>>,
    /// Number of further records with the same prefix at the same revision, after the last item.
    pub remaining: usize,
}

impl<M> Listing<M> {
    /// Whether the limit omitted records.
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

/// A list failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ListError {
    /// The history of that revision was dropped.
    #[error("revision {at} is compacted: the oldest is {oldest}, list without a revision")]
    Compacted {
        /// The requested revision.
        at: Revision,
        /// The oldest revision that can be read.
        oldest: Revision,
    },
    /// The revision has not been committed yet.
    #[error("revision {at} is in the future: the newest is {newest}, retry later")]
    Future {
        /// The requested revision.
        at: Revision,
        /// The newest revision.
        newest: Revision,
    },
}

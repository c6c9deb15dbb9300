//! A table as it was: gathered under its lock, put in order without.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::{Listing, Record, Revision};

/// The records of a table that were there at a revision.
///
/// A record was there if it is not younger, and was not replaced or was replaced later. So these are the records that
/// are there now and are not younger, and those that a later event replaced and that are not younger. No key is in
/// both.
pub(crate) struct Snapshot<M> {
    revision: Revision,
    limit: usize,
    /// Those that are still there, in key order, up to the limit.
    present: Vec<Arc<Record<M>>>,
    /// How many more are still there.
    beyond: usize,
    /// Those that are not there any more, in the order in which they went.
    replaced: Vec<Arc<Record<M>>>,
}

impl<M> Snapshot<M> {
    pub(crate) fn new<'a>(
        revision: Revision,
        limit: Option<NonZeroUsize>,
        mut present: impl Iterator<Item = &'a Arc<Record<M>>>,
        replaced: impl Iterator<Item = &'a Arc<Record<M>>>,
    ) -> Self
    where
        M: 'a,
    {
        let limit = limit.map_or(usize::MAX, NonZeroUsize::get);
        let first = present.by_ref().take(limit).cloned().collect();
        Self {
            revision,
            limit,
            present: first,
            beyond: present.count(),
            replaced: replaced.cloned().collect(),
        }
    }

    pub(crate) fn empty(revision: Revision) -> Self {
        Self { revision, limit: usize::MAX, present: Vec::new(), beyond: 0, replaced: Vec::new() }
    }

    pub(crate) fn into_listing(mut self) -> Listing<M> {
        let all = self.present.len() + self.beyond + self.replaced.len();
        if !self.replaced.is_empty() {
            if self.replaced.len() > self.limit {
                // Only the least can be on the page: the others need no order among themselves.
                self.replaced.select_nth_unstable_by(self.limit, |one, other| one.key.cmp(&other.key));
                self.replaced.truncate(self.limit);
            }
            self.replaced.sort_unstable_by(|one, other| one.key.cmp(&other.key));
            self.present.append(&mut self.replaced);
            // Two runs that are in order: a stable sort finds and merges them.
            self.present.sort_by(|one, other| one.key.cmp(&other.key));
            self.present.truncate(self.limit);
        }
        let remaining = all - self.present.len();
        Listing { revision: self.revision, items: self.present, remaining }
    }
}

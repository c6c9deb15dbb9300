//! A table at a revision: collected under its lock, sorted without.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::{Listing, Record, Revision};

/// The records of a table at a revision.
///
/// A record existed at a revision if it was committed up to then and not replaced up to then. These are the present
/// records committed up to then, and the ones committed up to then that a later event replaced. No key is in both sets.
pub(crate) struct Snapshot<M> {
    revision: Revision,
    limit: usize,
    /// Those that are still present, in key order, up to the limit.
    present: Vec<Arc<Record<M>>>,
    /// Number of further ones that are still present.
    beyond: usize,
    /// Those that were replaced, in the order of their replacement.
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
                // Only the least keys can be on the page; the others need no order.
                self.replaced.select_nth_unstable_by(self.limit, |one, other| one.key.cmp(&other.key));
                self.replaced.truncate(self.limit);
            }
            self.replaced.sort_unstable_by(|one, other| one.key.cmp(&other.key));
            self.present.append(&mut self.replaced);
            // Two sorted runs: a stable sort detects and merges them.
            self.present.sort_by(|one, other| one.key.cmp(&other.key));
            self.present.truncate(self.limit);
        }
        let remaining = all - self.present.len();
        Listing { revision: self.revision, items: self.present, remaining }
    }
}

//! The number of a commit.

use std::fmt;

/// The number of a commit: one sequence for a whole store, without gaps, across all its tables.
///
/// A fresh store is at [`Revision::FIRST`]; its first commit is the one after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// The revision of a new store: 1. No commit has it, so that no client ever gets revision 0.
    pub const FIRST: Self = Self(1);

    /// The revision with that number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Only for the revision of a commit, which is never zero.
    pub(crate) const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl From<u64> for Revision {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl From<Revision> for u64 {
    fn from(revision: Revision) -> Self {
        revision.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

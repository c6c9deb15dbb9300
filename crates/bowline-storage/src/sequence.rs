//! The one sequence of revisions: the place that every commit passes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::{Event, Revision};

/// Hands out revisions, one commit at a time.
///
/// A commit is made, (journalled,) applied and published, in this order, while nobody else is at it. The caller holds
/// the lock of the table that it writes to from before it comes here until after it has left: so whoever can read a
/// table reads, in `newest`, a revision that the table is complete up to, and that it has nothing after.
pub(crate) struct Sequence {
    newest: AtomicU64,
    turn: Mutex<()>,
}

impl Sequence {
    pub(crate) fn new() -> Self {
        Self { newest: AtomicU64::new(Revision::FIRST.get()), turn: Mutex::new(()) }
    }

    /// The newest commit that was published.
    pub(crate) fn newest(&self) -> Revision {
        Revision::new(self.newest.load(Ordering::Acquire))
    }

    /// Commits the event that `make` makes. If that panics, nothing has happened.
    ///
    /// A journal's place is between `make` and `apply`: it sees every event, once, in order, before any reader does.
    pub(crate) fn commit<M, T>(
        &self,
        make: impl FnOnce(Revision) -> Event<M>,
        apply: impl FnOnce(Event<M>) -> T,
    ) -> T {
        // The lock guards an order, not data: a panic under it leaves nothing half done.
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let revision = self.newest().next();
        let event = make(revision);
        let applied = apply(event);
        self.newest.store(revision.get(), Ordering::Release);
        applied
    }
}

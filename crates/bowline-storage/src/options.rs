//! What bounds a store's history.

use std::num::NonZeroUsize;

/// How much history a [`Store`](crate::Store) keeps, per table.
///
/// The newest event of a table is always kept, however large it is: otherwise nobody could follow a table whose
/// records are larger than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub(crate) log_bytes: usize,
    pub(crate) log_events: NonZeroUsize,
}

impl Options {
    /// The most bytes that a table's log keeps alive; 16 MiB by default.
    ///
    /// An event counts what only the log keeps alive: the record that it replaced, and for a delete the last state as
    /// well; the newest record of a key belongs to the table. A record counts its body, its key, and the size of the
    /// structures around it; what `meta` has on the heap is not counted.
    #[must_use]
    pub fn log_bytes(self, bytes: usize) -> Self {
        Self { log_bytes: bytes, ..self }
    }

    /// The most events that a table's log keeps; 100 000 by default.
    #[must_use]
    pub fn log_events(self, events: NonZeroUsize) -> Self {
        Self { log_events: events, ..self }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { log_bytes: 16 << 20, log_events: const { NonZeroUsize::new(100_000).unwrap() } }
    }
}

//! Limits of a store and its history.

use std::num::NonZeroUsize;

/// Limits of a [`Store`](crate::Store): bytes of all records, and history per table.
///
/// The newest event of a table is always kept, however large it is: otherwise a table whose records exceed the limit
/// could not be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub(crate) max_bytes: usize,
    pub(crate) log_bytes: usize,
    pub(crate) log_events: NonZeroUsize,
}

impl Options {
    /// Maximum bytes of all current records. Default: 4 GiB; `usize::MAX` means no limit.
    ///
    /// A record counts as it does for [`log_bytes`](Self::log_bytes); history does not count. Beyond the limit a write
    /// that creates a record fails with [`WriteError::Full`](crate::WriteError::Full). An update may exceed it by a
    /// sixteenth, so that records can still be marked for deletion; a delete never fails.
    #[must_use]
    pub fn max_bytes(self, bytes: usize) -> Self {
        Self { max_bytes: bytes, ..self }
    }

    /// Maximum bytes that a table's log keeps alive. Default: 16 MiB.
    ///
    /// An event counts the bytes that only the log keeps alive: the replaced record, and for a delete the last state
    /// too. The newest record of a key belongs to the table. A record counts its body, its key, and the size of the
    /// structures around it, but not the heap memory of `meta`.
    #[must_use]
    pub fn log_bytes(self, bytes: usize) -> Self {
        Self { log_bytes: bytes, ..self }
    }

    /// Maximum number of events in a table's log. Default: 100 000.
    #[must_use]
    pub fn log_events(self, events: NonZeroUsize) -> Self {
        Self { log_events: events, ..self }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_bytes: usize::try_from(4_u64 << 30).unwrap_or(usize::MAX),
            log_bytes: 16 << 20,
            log_events: const { NonZeroUsize::new(100_000).unwrap() },
        }
    }
}

//! Payloads that merge, so that one run of a key can stand for many adds.

use std::collections::BTreeSet;

/// A payload that merges with another one, added while its key waits, is delayed or is being processed.
///
/// `coalesce` runs under the queue's lock, so it must be fast, and its result should be bounded: a key may be added any
/// number of times before it runs. It must not call the queue. If it panics, the newer payload is lost, the older stays
/// as `coalesce` left it, the key stays queued, and [`QueueStats::merge_panics`](crate::QueueStats::merge_panics)
/// counts it.
///
/// ```
/// use bowline_workqueue::Coalesce;
///
/// /// The first reason for a run, and the number of further ones.
/// struct Why { first: &'static str, more: usize }
///
/// impl Coalesce for Why {
///     fn coalesce(&mut self, newer: Self) {
///         self.more += 1 + newer.more;
///     }
/// }
/// ```
pub trait Coalesce: Send + 'static {
    /// Merges a payload that was added later.
    fn coalesce(&mut self, newer: Self);
}

impl Coalesce for () {
    fn coalesce(&mut self, (): ()) {}
}

impl<T: Ord + Send + 'static> Coalesce for BTreeSet<T> {
    fn coalesce(&mut self, mut newer: Self) {
        self.append(&mut newer);
    }
}

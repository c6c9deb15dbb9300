//! Payloads that merge, so that one run of a key can stand for many adds.

use std::collections::BTreeSet;

/// A payload that takes in another: what is added while a key waits, is delayed or is being processed.
///
/// `coalesce` runs under the queue's lock, so it must be quick, and its result should be bounded: a key may be
/// added any number of times before it runs. It must not call the queue. Should it panic, the newer payload is
/// lost, the older stays as `coalesce` left it, the key stays queued, and
/// [`Stats::merge_panics`](crate::Stats::merge_panics) counts it.
///
/// ```
/// use bowline_workqueue::Coalesce;
///
/// /// Why a key is to be run: the first reason, and how many more there were.
/// struct Why { first: &'static str, more: usize }
///
/// impl Coalesce for Why {
///     fn coalesce(&mut self, newer: Self) {
///         self.more += 1 + newer.more;
///     }
/// }
/// ```
pub trait Coalesce: Send + 'static {
    /// Takes in a payload that was added later.
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

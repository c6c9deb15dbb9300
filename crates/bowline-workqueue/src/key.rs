//! The bounds of a key.

use std::hash::Hash;

/// A key of a queue: any owned type that can be compared, hashed, cloned and sent. It is implemented automatically.
///
/// A key's `Eq`, `Clone` and `Drop` run under the queue's lock: they must be fast, must not panic, and must not call
/// the queue. A key is cloned each time it is handed to a worker, peeked at or listed, so cloning should be cheap.
pub trait Key: Eq + Hash + Clone + Send + 'static {}

impl<K: Eq + Hash + Clone + Send + 'static> Key for K {}

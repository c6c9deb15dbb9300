//! What can be a key.

use std::hash::Hash;

/// What a queue can hold: anything that can be compared, hashed, cloned and sent, and is not borrowed. There is
/// nothing to implement.
///
/// A key's `Eq`, `Clone` and `Drop` run under the queue's lock: they must be quick, must not panic, and must not
/// call the queue. It is cloned each time it is handed out or peeked at, so it should be cheap to clone.
pub trait Key: Eq + Hash + Clone + Send + 'static {}

impl<K: Eq + Hash + Clone + Send + 'static> Key for K {}

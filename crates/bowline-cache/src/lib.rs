//! Informers: what an API server has, kept here, indexed, and told to any number of handlers.

mod indexer;
mod key;

pub use bowline_machinery::ObjectKey;
pub use indexer::{IndexError, Indexer, NAMESPACE_INDEX, Snapshot};
pub use key::object_key;

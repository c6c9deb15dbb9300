//! Storage for an API server: tables of bytes, one sequence of revisions, and a log to watch.
#![doc = include_str!("guide.md")]

mod event;
mod list;
mod log;
mod options;
mod range;
mod record;
mod revision;
mod sequence;
mod shelf;
mod shelves;
mod snapshot;
mod store;
mod table;
mod waiters;
mod watch;
mod write;

pub use event::{Change, Event};
pub use list::{List, ListError, Listing};
pub use options::Options;
pub use record::{Contents, Record};
pub use revision::Revision;
pub use store::{Store, TableId};
pub use watch::{BATCH, Batch, Closed, Watch, WatchError};
pub use write::WriteError;

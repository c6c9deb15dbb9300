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
mod snapshot;
mod store;
mod table;
mod table_slot;
mod table_slots;
mod waiters;
mod watch;
mod write;

pub use event::{Event, EventType};
pub use list::{ListError, ListRequest, Listing};
pub use options::Options;
pub use record::{NewRecord, Record};
pub use revision::Revision;
pub use store::{Store, TableId};
pub use watch::{BATCH, Batch, Watch, WatchClosed, WatchError};
pub use write::WriteError;

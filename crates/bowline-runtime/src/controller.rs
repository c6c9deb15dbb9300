//! A controller: its watches, its queue, its workers; its start and its stop. One run of a reconciler belongs to [`worker`].

mod ahead;
mod builder;
mod error;
mod handle;
pub(crate) mod has_cluster;
mod queue_payload;
mod run_control;
mod session;
mod states;
mod supervisor;
#[cfg(test)]
mod tests;
mod wall_deadlines;
mod watch_entry;
mod worker;

pub use builder::{ControllerBuilder, RetriesExhausted};
pub use error::{BuildError, ControllerError, UnsyncedSource};
pub use handle::{Controller, StopReport, WatchHandle};
pub use has_cluster::HasCluster;

pub(crate) use queue_payload::QueuePayload;
pub(crate) use run_control::RunControl;
pub(crate) use session::{Core, Session};
pub(crate) use worker::run_worker;

/// The priority of objects that existed when a watch began, and of resyncs: they wait behind other events, which have
/// priority 0.
pub const LOW_PRIORITY: i32 = -100;

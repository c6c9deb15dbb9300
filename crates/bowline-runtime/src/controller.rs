//! A controller: what it watches, its queue, its workers; how it starts and stops. Owns its life; what one run of a
//! reconciler is belongs to [`worker`].

mod ahead;
mod builder;
mod duty;
mod error;
mod handle;
pub(crate) mod home;
mod pending;
mod session;
mod supervisor;
#[cfg(test)]
mod tests;
mod worker;

pub use builder::{ControllerBuilder, GaveUp};
pub use error::{BuildError, ControllerError, WaitingFor};
pub use handle::{Controller, Stopped, WatchHandle};
pub use home::Home;

pub(crate) use duty::Duty;
pub(crate) use pending::Pending;
pub(crate) use session::Session;
pub(crate) use worker::work;

/// The priority of what was there when a watch began, and of what is only shown once more: it waits behind what really
/// happened, which has priority 0.
pub const LOW_PRIORITY: i32 = -100;

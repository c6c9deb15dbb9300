//! The control plane that Kubernetes ships, as processes of this machine. Owns which parts there are; each part has a
//! file of its own.

mod binaries;
mod builder;
mod control_plane;
mod credentials;
mod detached;
mod directory;
mod file;
mod flags;
mod identity;
mod kubeconfig;
mod ports;
mod probe;
mod process;
mod processes;
mod secret;
mod sentinel;
mod start_error;

pub use binaries::Binaries;
pub use builder::RealControlPlaneBuilder;
pub use control_plane::{DetachError, RealControlPlane, StopError};
pub use detached::{DetachedControlPlane, DetachedError, Stopped};
pub use secret::Secret;
pub use start_error::StartError;

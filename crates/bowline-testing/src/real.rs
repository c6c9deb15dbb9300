//! Kubernetes' own control plane as processes of this machine. Each part has its own file.

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
pub use detached::{DetachedControlPlane, DetachedError, StopReport};
pub use directory::create_private_directory;
pub use secret::SecretString;
pub use start_error::StartError;

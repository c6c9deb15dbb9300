//! Test environments for operators, and the control planes behind them.
//!
#![cfg_attr(feature = "env", doc = include_str!("guide.md"))]
//! # A real control plane by itself
//!
//! [`RealControlPlane`] starts etcd, kube-apiserver and optionally kube-controller-manager as processes on loopback, with
//! TLS, RBAC and their own credentials, and stops exactly the processes that it started. `cargo xtask real` builds the
//! programs.
//!
//! ```no_run
//! use bowline_clock::Clock;
//! use bowline_testing::{Binaries, RealControlPlane};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let binaries = Binaries::in_directory("/path/to/bin");
//! let plane = RealControlPlane::builder(Clock::real(), binaries).start().await?;
//! println!("export KUBECONFIG={}", plane.kubeconfig().display());
//! plane.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! For Unix. A plane that outlives its process ([`RealControlPlane::detach`]) needs `/proc`, so Linux.

#[cfg(feature = "env")]
mod env;
mod real;

#[cfg(feature = "env")]
pub use bowline_apiserver::{RequestAttributes, Verb, faults};
#[cfg(feature = "env")]
pub use env::{
    Arm, Assembled, Calls, Controllers, EnvError, FinishError, FunctionOf, InstallError, MissingPermission,
    MissingPermissions, Operator, Outcome, RunError, TestEnv, TestEnvBuilder, WaitError,
};
pub use real::{
    Binaries, DetachError, DetachedControlPlane, DetachedError, RealControlPlane, RealControlPlaneBuilder,
    SecretString, StartError, StopError, StopReport,
};

/// Parts for Bowline's own programs. Not a stable API.
#[doc(hidden)]
pub mod internal {
    pub use crate::real::create_private_directory;
}

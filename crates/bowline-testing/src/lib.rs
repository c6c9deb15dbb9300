//! Test environments for operators, and the control planes behind them.
//!
#![cfg_attr(feature = "env", doc = include_str!("guide.md"))]
//! # A real control plane by itself
//!
//! [`RealControlPlane`] starts etcd, kube-apiserver and, if asked, kube-controller-manager as processes on loopback, with
//! TLS, RBAC and credentials of their own, and stops exactly what it started. It does not build or find the programs;
//! `cargo xtask real` does.
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
pub use env::{
    Arm, Assembled, Controllers, EnvError, FinishError, FunctionOf, InstallError, Operator, RunError,
    TestEnv, TestEnvBuilder, WaitError,
};
pub use real::{
    Binaries, DetachError, DetachedControlPlane, DetachedError, RealControlPlane, RealControlPlaneBuilder,
    Secret, StartError, StopError, Stopped,
};

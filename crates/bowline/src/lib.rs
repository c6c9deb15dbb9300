//! The operator framework for Rust, as one crate: what an operator author adds to `Cargo.toml`.
//!
//! This crate shows the parts under one roof, and holds no logic but what a `main` needs. Begin with [`prelude`] and
//! [`runtime`], whose guide leads through an operator.
//!
//! - [`prelude`]: what almost every operator uses.
//! - [`runtime`]: controllers, from an event to `reconcile`, the client in it, and the manager that runs them.
//! - [`cache`]: informers, which keep what an API server has and tell what happens to it.
//! - [`clock`]: time, randomness and task scopes, real and simulated.
//! - [`machinery`]: what objects are, without I/O: keys, names, selectors, quantities.
//! - [`workqueue`]: the queue between "something changed" and `reconcile`.
#![cfg_attr(
    feature = "args",
    doc = "- [`args`](mod@args) (feature `args`): ready-made flags, and the manager that they ask for."
)]
#![cfg_attr(
    feature = "logs",
    doc = "- [`telemetry`] (feature `logs`): logs and traces, in one line of `main`."
)]
//!
//! `kube` and `k8s-openapi`, whose client and types all of it stands on, are here too, in the versions that fit.

#[cfg(feature = "args")]
pub mod args;
pub mod prelude;
#[cfg(feature = "logs")]
pub mod telemetry;

#[cfg(feature = "args")]
pub use args::args;
pub use bowline_cache as cache;
pub use bowline_clock as clock;
pub use bowline_machinery as machinery;
pub use bowline_runtime as runtime;
pub use bowline_workqueue as workqueue;
pub use k8s_openapi;
pub use kube;

/// Compiles and runs the code in the project's README, which shows all features.
#[cfg(all(doctest, feature = "args"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles and runs the code in the project's ARCHITECTURE.md.
#[cfg(doctest)]
#[doc = include_str!("../../../ARCHITECTURE.md")]
struct Architecture;

/// Compiles the code in the documents for people who come from elsewhere.
#[cfg(doctest)]
mod from_elsewhere {
    #[doc = include_str!("../../../docs/from-client-go.md")]
    struct ClientGo;

    #[doc = include_str!("../../../docs/from-controller-runtime.md")]
    struct ControllerRuntime;

    #[doc = include_str!("../../../docs/from-kube-rs.md")]
    struct KubeRs;
}

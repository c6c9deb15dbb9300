//! The operator framework for Rust, as one crate: an operator adds it to its `Cargo.toml`.
//!
//! This crate re-exports the library crates, and adds the code that a `main` needs. Begin with [`prelude`] and [`runtime`]: the
//! guide of the latter leads through an operator.
//!
//! - [`prelude`]: the items that almost every operator uses.
//! - [`runtime`]: controllers, from an event to `reconcile`, their client, and the manager that runs them.
//! - [`cache`]: informers, which keep the objects of an API server and notify handlers.
//! - [`clock`]: time, randomness and task scopes, real and simulated.
//! - [`machinery`]: objects without I/O: keys, names, selectors, quantities.
//! - [`workqueue`]: the queue between an event and `reconcile`.
#![cfg_attr(
    feature = "args",
    doc = "- [`args`](mod@args) (feature `args`): ready-made flags, and a manager with those options."
)]
#![cfg_attr(
    feature = "plane",
    doc = "- [`plane`] (feature `plane`): an API server inside the process, for development."
)]
#![cfg_attr(
    feature = "logs",
    doc = "- [`telemetry`] (feature `logs`): logs and traces, in one line of `main`."
)]
//!
//! - [`api`](macro@api) and [`test`](macro@test): attributes for types of the API and for tests.
//!
//! [`kube`], [`k8s_openapi`], [`schemars`], [`serde`] and [`serde_json`] are exported in the versions that fit. A program needs
//! none of them as a dependency of its own: [`api`](macro@api) points their derives here, and one of the features `v1_33` to
//! `v1_37` chooses the version of Kubernetes' types.

#[cfg(feature = "args")]
pub mod args;
#[cfg(feature = "plane")]
pub mod plane;
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
pub use schemars;
pub use serde;
pub use serde_json;

/// Attribute for a type of the Kubernetes API.
///
/// ```
/// use bowline::prelude::*;
///
/// #[bowline::api]
/// #[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
/// #[kube(group = "demo.example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
/// struct WebsiteSpec {
///     image: String,
/// }
///
/// #[bowline::api]
/// #[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
/// struct WebsiteStatus {
///     available: i32,
/// }
///
/// assert_eq!(Website::crd().spec.names.kind, "Website");
/// ```
pub use bowline_macros::api;

/// Attribute for a test with an environment.
///
/// ```
/// use bowline::prelude::*;
/// use bowline_testing::TestEnv;
/// use bowline::k8s_openapi::api::core::v1::ConfigMap;
///
/// #[bowline::test]
/// async fn a_new_namespace_has_no_config_maps(env: TestEnv) -> Result<()> {
///     let maps = env.client().list::<ConfigMap>(&ListQuery::new()).await?;
///     assert!(maps.is_empty());
///     Ok(())
/// }
/// ```
pub use bowline_macros::test;

/// Compiles and runs the code in the project's README, which shows all features.
#[cfg(all(doctest, feature = "args"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles and runs the code in the project's ARCHITECTURE.md.
#[cfg(doctest)]
#[doc = include_str!("../../../ARCHITECTURE.md")]
struct Architecture;

/// Compiles the code in the migration guides.
#[cfg(doctest)]
mod from_elsewhere {
    #[doc = include_str!("../../../docs/from-client-go.md")]
    struct ClientGo;

    #[doc = include_str!("../../../docs/from-controller-runtime.md")]
    struct ControllerRuntime;

    #[doc = include_str!("../../../docs/from-kube-rs.md")]
    struct KubeRs;
}

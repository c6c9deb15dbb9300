//! What almost every operator uses, for `use bowline::prelude::*`.
//!
//! Where two crates have a name for something else, Bowline's is meant: [`Client`] is an operator's client, and the one that
//! it stands on is `bowline::kube::Client`. What is imported by name hides what is imported from here.
//!
//! The macros of kube, schemars and serde write paths that begin with the names of those crates, so that a crate with custom
//! kinds depends on `k8s-openapi`, `kube`, `schemars`, `serde` and `serde_json` beside Bowline.

pub use std::sync::Arc;
pub use std::time::Duration;

pub use bowline_cache::{CacheOptions, Kind, ListQuery, Packed};
pub use bowline_clock::Clock;
pub use bowline_machinery::ObjectKey;
pub use bowline_runtime::ownership::{child, child_with_suffix};
pub use bowline_runtime::{
    Action, Client, Cluster, Context, Controller, Error, EventType, IgnoreErrors, Manager, Object,
    ObjectReconciler, Patch, Reconciler, Recorder, Request, Result, Runnable, Watch, conditions, finalizer,
    handler, ownership, predicate, source, terminal,
};
pub use kube::{CustomResource, CustomResourceExt, Resource, ResourceExt};
pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};

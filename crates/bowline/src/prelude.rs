//! The items that almost every operator uses, for `use bowline::prelude::*`.
//!
//! An import by name wins over this one, so that every name here can be replaced: `use anyhow::Result;` and
//! `use http::Request;` do that.
//!
//! | name here | same name elsewhere | decision |
//! |---|---|---|
//! | [`Result`], [`Error`] | `std`, `anyhow`, `serde` | [`Result`] takes another error type: `Result<T, E>` is `std`'s |
//! | [`Client`] | `kube` | an operator's client; kube's is `bowline::kube::Client` |
//! | [`Context`] | `anyhow` | a reconcile's first argument; import anyhow's trait as `anyhow::Context as _` |
//! | [`Request`] | `http`, `kube` | the object to reconcile |
//! | [`Action`], [`Controller`] | `kube-runtime` | Bowline's |
//! | [`Change`], [`Requests`], [`HandlerContext`] | none | the arguments of handlers |
//! | [`Object`], [`Patch`] | `kube` | Bowline's; kube's are `kube::core::Object` and `kube::api::Patch` |
//! | [`Resource`], [`ResourceExt`], [`CustomResource`] | `kube` | kube's own |
//!
//! Not here: [`ErrorContext`](bowline_runtime::ErrorContext), whose `context` and `with_context` are ambiguous next to
//! `anyhow::Context`. Import it by name where anyhow is not used: `use bowline::runtime::ErrorContext as _;`.
//!
//! The extension traits add methods to objects ([`OwnerExt`]), conditions ([`ConditionsExt`]), errors ([`ErrorPredicates`])
//! and results of the client ([`IgnoreErrors`]).
//!
//! A custom kind needs no other crate: [`#[bowline::api]`](macro@crate::api) above its derives lets the macros of kube, schemars and
//! serde use the crates that `bowline` exports.

pub use std::sync::Arc;
pub use std::time::Duration;

pub use bowline_cache::{CacheOptions, Kind, ListQuery, Packed, object_key};
pub use bowline_clock::Clock;
pub use bowline_machinery::ObjectKey;
pub use bowline_runtime::conditions::{ConditionsExt, NewCondition};
pub use bowline_runtime::finalizer::Cleanup;
pub use bowline_runtime::handler::{HandlerContext, Requests};
pub use bowline_runtime::ownership::OwnerExt;
pub use bowline_runtime::{
    Action, Change, Client, Cluster, Context, Controller, Error, ErrorPredicates, EventType, IgnoreErrors,
    Manager, Object, ObjectReconciler, Patch, Permission, Reconciler, Recorder, Request, Result, Runnable,
    Verb, Watch, conditions, finalizer, handler, ownership, predicate, source, terminal,
};
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
pub use kube::{CustomResource, CustomResourceExt, Resource, ResourceExt};
pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};

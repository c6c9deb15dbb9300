//! Controllers: from an event to `reconcile`, and the client in it.
#![doc = include_str!("guide.md")]

mod action;
mod change;
mod client;
mod cluster;
pub mod conditions;
mod context;
mod controller;
pub mod debug;
mod ensure;
mod error;
mod events;
pub mod finalizer;
pub mod handler;
pub mod health;
mod journal;
pub mod leader_election;
mod manager;
mod mapper;
mod metrics;
mod object;
pub mod ownership;
pub mod predicate;
mod reconciler;
mod request;
mod scheme;
pub mod server;
mod signals;
pub mod source;
pub mod transport;
mod trigger;
mod watch;

pub use action::Action;
pub use change::{Change, ChangeKind};
pub use client::{
    Apply, Client, ClientBuilder, ClientError, Conflict, Delete, DeleteAllOf, FieldValidation, IgnoreErrors,
    KindClient, KindStatusClient, KindSubresourceClient, Object, Operation, Patch, PatchError, PatchKind,
    Propagation, StatusClient, SubresourceClient, Verb, Warning,
};
pub use cluster::{Cluster, ClusterBuilder, ClusterError};
pub use context::{Context, ReconcileId};
pub use controller::{
    BuildError, Controller, ControllerBuilder, ControllerError, GaveUp, Home, LOW_PRIORITY, Stopped,
    WaitingFor, WatchHandle,
};
pub use ensure::{Desired, EnsureError, EnsureOutcome, Ensured, Mutation};
pub use error::{BoxError, Error, Result, is_terminal, terminal};
pub use events::{
    ApiSink, Broadcaster, BroadcasterBuilder, CorrelatorOptions, EventApi, EventCounts, EventRecord,
    EventType, Flushed, LogSink, NewEvent, Recorder, Repeats, Sink, SinkError, SinkFuture, ToReference,
};
pub use journal::{Journal, Outcome, Run, Runs};
pub use manager::{
    Connection, Failure, Manager, ManagerBuilder, ManagerError, Runnable, Stage, WebhookOptions,
};
pub use mapper::{DiscoveryMapper, MapperError, MapperFuture, RestMapper, RestMapping};
pub use metrics::{ElectionMetrics, Metrics};
pub use object::AsObject;
pub use reconciler::{IntoReconciler, ObjectReconciler, Reconciler};
pub use request::Request;
pub use scheme::{Decoded, Scheme, SchemeError};
pub use signals::Signals;
pub use trigger::{Cause, Trigger, Triggers};
pub use watch::Watch;

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
mod definition;
mod description;
mod ensure;
mod error;
mod events;
pub mod finalizer;
pub mod handler;
pub mod health;
pub mod leader_election;
mod log_throttle;
mod manager;
mod mapper;
mod metrics;
mod object;
pub mod ownership;
mod permission;
pub mod predicate;
mod reconcile_history;
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
pub use change::{Change, ChangeKind, HasMetadata};
pub use client::{
    Apply, CachedNamespaces, Client, ClientBuilder, ClientError, Conflict, CreateToken, Delete, DeleteAllOf,
    Evict, FieldValidation, IgnoreErrors, KindClient, ListStream, Object, Operation, Patch, PatchError,
    PatchKind, Propagation, ServiceAccountToken, UpdateStatusError, Verb, Warning, WatchEvent, WatchRequest,
    WatchStream,
};
pub use cluster::{Cluster, ClusterBuilder, ClusterError, ClusterName};
pub use context::{Context, ReconcileId};
pub use controller::{
    BuildError, Controller, ControllerBuilder, ControllerError, HasCluster, LOW_PRIORITY, RetriesExhausted,
    StopReport, UnsyncedSource, WatchHandle,
};
pub use definition::{DefinitionError, DefinitionInstaller};
pub use description::{
    ClusterDescription, ControllerDescription, DESCRIPTION_FORMAT, KindDescription, OperatorDescription,
    WatchDescription,
};
pub use ensure::{Desired, EnsureError, EnsureOutcome, Ensured, Mutation};
pub use error::{BoxError, Error, ErrorContext, ErrorPredicates, Result, terminal};
pub use events::{
    ApiSink, Broadcaster, BroadcasterBuilder, CorrelatorOptions, EventApi, EventCounts, EventRecord,
    EventSink, EventType, Flushed, LogSink, NewEvent, Recorder, RepeatPolicy, SinkError, SinkFuture,
    ToReference,
};
pub use manager::{
    ConnectionConfig, Failure, Manager, ManagerBuilder, ManagerError, Runnable, Stage, WebhookOptions,
};
pub use mapper::{DiscoveryMapper, MapperError, MapperFuture, RestMapper, RestMapping};
pub use metrics::{ElectionMetrics, Metrics};
pub use object::AsObject;
pub use permission::{Permission, election_permissions, review_permissions};
pub use reconcile_history::{
    FailedRuns, ReconcileHistory, ReconcileOutcome, ReconcileRecord, ReconcileStream,
};
pub use reconciler::{IntoReconciler, ObjectReconciler, Reconciler};
pub use request::Request;
pub use scheme::{Decoded, Scheme, SchemeError};
pub use signals::Signals;
pub use trigger::{Cause, Trigger, Triggers};
pub use watch::Watch;

//! Controllers: from an event to `reconcile`, and the client in it.
#![doc = include_str!("guide.md")]

mod action;
mod change;
mod client;
mod cluster;
mod error;
mod events;
mod journal;
pub mod leader_election;
mod mapper;
mod metrics;
mod request;
pub mod transport;
mod trigger;

pub use action::Action;
pub use change::{Change, ChangeKind};
pub use client::{
    Client, ClientBuilder, ClientError, Conflict, Delete, DeleteAllOf, FieldValidation, IgnoreErrors,
    KindClient, KindStatusClient, KindSubresourceClient, Object, Operation, Patch, PatchError, PatchKind,
    Propagation, StatusClient, SubresourceClient, Verb, Warning,
};
pub use cluster::{Cluster, ClusterBuilder, ClusterError};
pub use error::{BoxError, Error, Result, is_terminal, terminal};
pub use events::{
    ApiSink, Broadcaster, BroadcasterBuilder, CorrelatorOptions, EventApi, EventCounts, EventRecord,
    EventType, Flushed, LogSink, NewEvent, Recorder, Repeats, Sink, SinkError, SinkFuture, ToReference,
};
pub use journal::{Journal, Outcome, Run};
pub use mapper::{DiscoveryMapper, MapperError, MapperFuture, RestMapper, RestMapping};
pub use metrics::Metrics;
pub use request::Request;
pub use trigger::{Cause, Trigger, Triggers};

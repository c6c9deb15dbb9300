//! The Kubernetes API in process: an API server that any kube client can be plugged into without a socket.
#![doc = include_str!("guide.md")]

mod admission;
mod attributes;
mod authentication;
mod body;
mod bootstrap;
mod builder;
mod builtin;
mod certificates;
mod coalescing_writer;
mod connection;
mod connections;
mod continue_token;
mod custom;
mod decode;
mod delete;
mod discovery;
#[cfg(feature = "faults")]
pub mod faults;
mod health;
mod hooks;
mod indent;
mod kubeconfig;
mod list_options;
mod negotiate;
mod non_resource;
mod object;
mod patch;
mod poll_on_wake;
mod query;
mod read;
mod registry;
mod request;
mod resource;
mod rest;
mod select;
mod serve;
mod server;
mod subresource;
mod watch;
mod write;

pub use attributes::RequestAttributes;
pub use authentication::{Token, User};
pub use body::Body;
pub use builder::{ApiServerBuilder, BuildError};
pub use hooks::{Disconnected, FrameVerdict, Hook, HookFuture, RequestInfo, Verdict, WatchFrame};
pub use kubeconfig::{Kubeconfig, TemporaryKubeconfig};
pub use request::Verb;
pub use serve::{ServeError, ServeOptions, ServerHandle};
pub use server::{ApiServer, MAX_BODY};

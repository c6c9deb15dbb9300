//! The Kubernetes API in process: an API server that any kube client can be plugged into without a socket.
#![doc = include_str!("guide.md")]

mod about;
mod admission;
mod authentication;
mod body;
mod bootstrap;
mod builder;
mod builtin;
mod certificates;
mod connection;
mod continue_token;
mod custom;
mod decode;
mod delete;
mod discovery;
mod dormant;
mod gather;
mod health;
mod hooks;
mod indent;
mod kubeconfig;
mod list_options;
mod negotiate;
mod object;
mod patch;
mod query;
mod read;
mod registry;
mod request;
mod resource;
mod rest;
mod select;
mod serve;
mod server;
mod silence;
mod subresource;
mod watch;
mod write;

pub use authentication::{Token, User};
pub use body::Body;
pub use builder::{BuildError, Builder};
pub use hooks::{Call, Disconnected, FrameVerdict, Hook, HookFuture, Verdict, WatchFrame};
pub use kubeconfig::Kubeconfig;
pub use request::Verb;
pub use serve::{ServeError, ServeOptions, Serving};
pub use server::{ApiServer, MAX_BODY};

//! The Kubernetes API in process: an API server that any kube client can be plugged into without a socket.

mod authentication;
mod body;
mod bootstrap;
mod builder;
mod builtin;
mod continue_token;
mod custom;
mod decode;
mod delete;
mod discovery;
mod health;
mod hooks;
mod indent;
mod list_options;
mod negotiate;
mod object;
mod query;
mod read;
mod registry;
mod request;
mod resource;
mod rest;
mod select;
mod server;
mod subresource;
mod watch;
mod write;

pub use authentication::User;
pub use body::Body;
pub use builder::{BuildError, Builder};
pub use hooks::{Call, Disconnected, FrameVerdict, Hook, HookFuture, Verdict, WatchFrame};
pub use request::Verb;
pub use server::{ApiServer, MAX_BODY};

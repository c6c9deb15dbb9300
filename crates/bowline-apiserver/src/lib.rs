//! The Kubernetes API in process: an API server that any kube client can be plugged into without a socket.
//!
//! ```
//! use bowline_apiserver::{ApiServer, ServeOptions};
//! use k8s_openapi::api::core::v1::Namespace;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::builder().build()?;
//! let namespaces: kube::Api<Namespace> = kube::Api::all(kube::Client::new(server.clone(), "default"));
//! assert_eq!(namespaces.list(&Default::default()).await?.items.len(), 4);
//!
//! // For those who need a socket: TLS, with an authority, a certificate and a token of its own.
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let serving = server.serve(listener, ServeOptions::default())?;
//! assert!(serving.kubeconfig().to_yaml().contains(&serving.address().to_string()));
//! assert!(serving.shutdown(std::time::Duration::from_secs(1)).await);
//! # Ok(())
//! # }
//! ```
//!
//! # What it has not
//!
//! What is not served is not listed in discovery either, and whoever asks for it is told so: 404, 405, 406 or 415.
//!
//! - Of core/v1: `bindings` (those of a pod are below it), `componentstatuses`, the `proxy` of nodes, pods and services,
//!   `attach`, `exec`, `log`, `portforward` and `resize` of pods, `token` of service accounts. Of other groups:
//!   `authentication.k8s.io` and `authorization.k8s.io`, and what is not v1 (or v2 of `autoscaling`).
//! - Bodies and answers in YAML, protobuf and CBOR, and the `Table` form; strategic merge patches and server-side apply.
//! - `/openapi/v2`, `/openapi/v3`, `/metrics` and the pages for people.
//! - Roles: whoever is known may do everything, whoever is not sees health and version.
//!
//! # What it bounds
//!
//! Bodies of requests ([`MAX_BODY`]), the history that watchers can be behind
//! ([`history_bytes`](Builder::history_bytes)), and on a socket the number of connections and what they may be slow at
//! ([`ServeOptions`]). A request that panics is answered with 500, a watch that panics is cut.

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

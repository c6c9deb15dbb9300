//! The service that sends requests to a server.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;

use super::Transport;
use crate::BoxError;

/// Sends requests to an API server: through any [`kube::Client`], or over a [`Transport`].
///
/// Clients, clusters and managers are built on either: `Cluster::new(&spawner, kube)` or `Cluster::new(&spawner,
/// &transport)`. A transport is faster: a [`kube::Client`] has a queue and a task that empties it, so that each request
/// waits for that task, and possibly for another thread to wake.
///
/// # Panics
/// Panics outside a tokio runtime when created from a [`Transport`].
#[derive(Clone)]
pub struct RequestService {
    kube: kube::Client,
    direct: Option<Direct>,
}

/// The body of a response.
pub(crate) type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// A pending response.
pub(super) type Answering = BoxFuture<'static, Result<Response<AnswerBody>, BoxError>>;

/// Sends a request, without a queue.
pub(super) type Direct = Arc<dyn Fn(Request<Body>) -> Answering + Send + Sync>;

impl RequestService {
    /// A service with a client, and with a direct path that avoids the client's queue.
    pub(super) fn new(kube: kube::Client, direct: Direct) -> Self {
        Self { kube, direct: Some(direct) }
    }

    /// A client with the same settings, behind its queue.
    #[must_use]
    pub fn kube_client(&self) -> &kube::Client {
        &self.kube
    }

    /// Sends a request. The error may be a [`kube::Error`].
    pub(crate) fn send(&self, request: Request<Body>) -> Answering {
        if let Some(direct) = &self.direct {
            return direct(request);
        }
        let kube = self.kube.clone();
        let boxed = |body: Body| body.map_err(BoxError::from).boxed_unsync();
        async move { Ok(kube.send(request).await?.map(boxed)) }.boxed()
    }
}

impl From<kube::Client> for RequestService {
    fn from(kube: kube::Client) -> Self {
        Self { kube, direct: None }
    }
}

impl From<&Transport> for RequestService {
    fn from(transport: &Transport) -> Self {
        transport.route(None)
    }
}

impl fmt::Debug for RequestService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestService").field("is_direct", &self.direct.is_some()).finish_non_exhaustive()
    }
}

//! How requests get to a server.

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

/// How requests get to an API server: through any [`kube::Client`], or over a [`Transport`].
///
/// Either is what clients, clusters and managers are made of: `Cluster::new(&spawner, kube)` or `Cluster::new(&spawner,
/// &transport)`. Over a transport the way is shorter. A [`kube::Client`] has a queue in front of it and a task that empties
/// it, so that each request waits for that task to run, and for another thread to wake up if it comes to that.
///
/// # Panics
/// Made of a [`Transport`], outside of a tokio runtime.
#[derive(Clone)]
pub struct Route {
    kube: kube::Client,
    direct: Option<Direct>,
}

/// What an answer says behind its head.
pub(crate) type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// An answer that is waited for.
pub(super) type Answering = BoxFuture<'static, Result<Response<AnswerBody>, BoxError>>;

/// Sends a request, without a queue.
pub(super) type Direct = Arc<dyn Fn(Request<Body>) -> Answering + Send + Sync>;

impl Route {
    /// A client, and the way over what it was made of.
    pub(super) fn new(kube: kube::Client, direct: Direct) -> Self {
        Self { kube, direct: Some(direct) }
    }

    /// A client that takes the same way, behind its queue.
    #[must_use]
    pub fn kube(&self) -> &kube::Client {
        &self.kube
    }

    /// Sends a request. The error may be kube's, if something on the way is.
    pub(crate) fn send(&self, request: Request<Body>) -> Answering {
        if let Some(direct) = &self.direct {
            return direct(request);
        }
        let kube = self.kube.clone();
        let boxed = |body: Body| body.map_err(BoxError::from).boxed_unsync();
        async move { Ok(kube.send(request).await?.map(boxed)) }.boxed()
    }
}

impl From<kube::Client> for Route {
    fn from(kube: kube::Client) -> Self {
        Self { kube, direct: None }
    }
}

impl From<&Transport> for Route {
    fn from(transport: &Transport) -> Self {
        transport.route(None)
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route").field("is_direct", &self.direct.is_some()).finish_non_exhaustive()
    }
}

//! Timeout of a request until its response begins, including credentials. Also tracks its progress.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_clock::Clock;
use futures::future::BoxFuture;
use http::{Method, Request, Response, Uri};
use kube::client::Body;
use tower_service::Service;

use super::RequestError;
use super::credentials::CredentialSource;
use super::pool::Pool;
use super::request::is_long_running;
use crate::BoxError;

/// Progress of a request, stored in its extensions.
#[derive(Clone)]
pub(super) struct RequestProgress(Arc<Inner>);

struct Inner {
    method: Method,
    uri: Uri,
    is_long_running: bool,
    stage: AtomicU8,
}

/// The step that a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Credentials,
    Permit,
    Connection,
    Answer,
}

impl RequestProgress {
    pub(super) fn new<B>(request: &Request<B>) -> Self {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let stage = AtomicU8::new(Stage::Credentials as u8);
        Self(Arc::new(Inner { method, uri, is_long_running: is_long_running(request), stage }))
    }

    /// Method and path, for errors and traces. Formatted on demand, since most requests do not need it.
    pub(super) fn request(&self) -> String {
        format!("{} {}", self.0.method, self.0.uri.path())
    }

    /// Whether the response is a stream.
    pub(super) fn is_long_running(&self) -> bool {
        self.0.is_long_running
    }

    pub(super) fn reach(&self, stage: Stage) {
        self.0.stage.store(stage as u8, Ordering::Relaxed);
    }

    fn is_at(&self, stage: Stage) -> bool {
        self.0.stage.load(Ordering::Relaxed) == stage as u8
    }
}

/// A service with a timeout until the response begins; for a stream, until the request is sent. Removes secrets from
/// errors of credentials.
#[derive(Clone)]
pub(super) struct Deadline<S> {
    inner: S,
    limit: Duration,
    pool: Pool,
    credentials: CredentialSource,
    clock: Clock,
}

impl<S> Deadline<S> {
    pub(super) fn new(
        inner: S,
        limit: Duration,
        pool: Pool,
        credentials: CredentialSource,
        clock: Clock,
    ) -> Self {
        Self { inner, limit, pool, credentials, clock }
    }
}

impl<S, B> Service<Request<Body>> for Deadline<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let progress = RequestProgress::new(&request);
        request.extensions_mut().insert(progress.clone());
        let answer = self.inner.call(request);
        let (limit, pool, clock) = (self.limit, self.pool.clone(), self.clock.clone());
        let credentials = self.credentials.clone();
        Box::pin(async move {
            let mut answer = pin!(answer);
            if let Ok(answer) = clock.timeout(limit, answer.as_mut()).await {
                return answer.map_err(|error| credentials.redact(error));
            }
            if progress.is_long_running() && progress.is_at(Stage::Answer) {
                return answer.await.map_err(|error| credentials.redact(error));
            }
            Err(timed_out(&progress, limit, &pool).into())
        })
    }
}

fn timed_out(progress: &RequestProgress, limit: Duration, pool: &Pool) -> RequestError {
    let request = progress.request();
    if progress.is_at(Stage::Credentials) {
        RequestError::Credentials { request, limit }
    } else if progress.is_at(Stage::Permit) {
        RequestError::ConcurrencyLimit { request, limit }
    } else if progress.is_at(Stage::Connection) {
        let source = io::Error::new(io::ErrorKind::TimedOut, "it took too long").into();
        RequestError::Connect { server: pool.server().to_owned(), source }
    } else {
        // The other idle connections lead to the same server.
        pool.close_idle();
        RequestError::Timeout { request, limit }
    }
}

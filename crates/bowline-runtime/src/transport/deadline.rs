//! How long a request may take until its answer begins, credentials included, and how far it came.

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
use super::pool::Pool;
use super::request::lasts;
use crate::BoxError;

/// Where a request is. It goes along with it.
#[derive(Clone)]
pub(super) struct Passage(Arc<Inner>);

struct Inner {
    method: Method,
    uri: Uri,
    lasts: bool,
    stage: AtomicU8,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Credentials,
    Turn,
    Connection,
    Answer,
}

impl Passage {
    pub(super) fn new<B>(request: &Request<B>) -> Self {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let stage = AtomicU8::new(Stage::Credentials as u8);
        Self(Arc::new(Inner { method, uri, lasts: lasts(request), stage }))
    }

    /// The method and the path, for errors and who traces: most requests are never asked for it.
    pub(super) fn request(&self) -> String {
        format!("{} {}", self.0.method, self.0.uri.path())
    }

    /// Whether the answer may take any time.
    pub(super) fn lasts(&self) -> bool {
        self.0.lasts
    }

    pub(super) fn reach(&self, stage: Stage) {
        self.0.stage.store(stage as u8, Ordering::Relaxed);
    }

    fn is_at(&self, stage: Stage) -> bool {
        self.0.stage.load(Ordering::Relaxed) == stage as u8
    }
}

/// A service that gives a request up when its answer does not begin in time. One that lasts only has to be sent in time.
#[derive(Clone)]
pub(super) struct Deadline<S> {
    inner: S,
    limit: Duration,
    pool: Pool,
    clock: Clock,
}

impl<S> Deadline<S> {
    pub(super) fn new(inner: S, limit: Duration, pool: Pool, clock: Clock) -> Self {
        Self { inner, limit, pool, clock }
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
        let passage = Passage::new(&request);
        request.extensions_mut().insert(passage.clone());
        let answer = self.inner.call(request);
        let (limit, pool, clock) = (self.limit, self.pool.clone(), self.clock.clone());
        Box::pin(async move {
            let mut answer = pin!(answer);
            if let Ok(answer) = clock.timeout(limit, answer.as_mut()).await {
                return answer;
            }
            if passage.lasts() && passage.is_at(Stage::Answer) {
                return answer.await;
            }
            Err(given_up(&passage, limit, &pool).into())
        })
    }
}

fn given_up(passage: &Passage, limit: Duration, pool: &Pool) -> RequestError {
    let request = passage.request();
    if passage.is_at(Stage::Credentials) {
        RequestError::Credentials { request, limit }
    } else if passage.is_at(Stage::Turn) {
        RequestError::Crowded { request, limit }
    } else if passage.is_at(Stage::Connection) {
        let source = io::Error::new(io::ErrorKind::TimedOut, "it took too long").into();
        RequestError::Connect { server: pool.server().to_owned(), source }
    } else {
        // The others that are kept lead to the same server.
        pool.forget();
        RequestError::Silent { request, limit }
    }
}

//! How many requests are sent in a second.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bowline_clock::Clock;
use bowline_workqueue::{Bucket, RateLimiter as _};
use futures::future::{BoxFuture, Either};
use http::{Request, Response};
use kube::client::Body;
use tower_service::Service;

/// How quickly a transport sends. All its clients have it in common.
#[derive(Clone)]
pub(super) struct Pace {
    bucket: Arc<Mutex<Bucket>>,
    clock: Clock,
}

impl Pace {
    pub(super) fn new(bucket: Bucket, clock: Clock) -> Self {
        Self { bucket: Arc::new(Mutex::new(bucket)), clock }
    }

    /// Until it is this request's turn.
    async fn turn(self) {
        let now = self.clock.now();
        let wait = self.bucket.lock().unwrap_or_else(PoisonError::into_inner).when(&(), now);
        if !wait.is_zero() {
            self.clock.sleep(wait).await;
        }
    }
}

/// A service that sends no more quickly than its pace, if it has one.
#[derive(Clone)]
pub(super) struct Paced<S> {
    inner: S,
    pace: Option<Pace>,
}

impl<S> Paced<S> {
    pub(super) fn new(inner: S, pace: Option<Pace>) -> Self {
        Self { inner, pace }
    }
}

impl<S, B> Service<Request<Body>> for Paced<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<S::Future, BoxFuture<'static, Result<S::Response, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Some(pace) = self.pace.clone() else { return Either::Left(self.inner.call(request)) };
        // The one that is ready is the one to be called.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        Either::Right(Box::pin(async move {
            pace.turn().await;
            inner.call(request).await
        }))
    }
}

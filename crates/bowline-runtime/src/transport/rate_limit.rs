//! Limits the rate of requests.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bowline_clock::Clock;
use bowline_workqueue::{RateLimiter as _, TokenBucket};
use futures::future::{BoxFuture, Either};
use http::{Request, Response};
use kube::client::Body;
use tower_service::Service;

/// The rate limit of a transport, shared by its clients.
#[derive(Clone)]
pub(super) struct RateLimit {
    bucket: Arc<Mutex<TokenBucket>>,
    clock: Clock,
}

impl RateLimit {
    pub(super) fn new(bucket: TokenBucket, clock: Clock) -> Self {
        Self { bucket: Arc::new(Mutex::new(bucket)), clock }
    }

    /// Waits for a token of the bucket.
    async fn wait(self) {
        let now = self.clock.now();
        let wait = self.bucket.lock().unwrap_or_else(PoisonError::into_inner).when(&(), now);
        if !wait.is_zero() {
            self.clock.sleep(wait).await;
        }
    }
}

/// A service with an optional rate limit.
#[derive(Clone)]
pub(super) struct RateLimited<S> {
    inner: S,
    rate_limit: Option<RateLimit>,
}

impl<S> RateLimited<S> {
    pub(super) fn new(inner: S, rate_limit: Option<RateLimit>) -> Self {
        Self { inner, rate_limit }
    }
}

impl<S, B> Service<Request<Body>> for RateLimited<S>
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
        let Some(rate_limit) = self.rate_limit.clone() else { return Either::Left(self.inner.call(request)) };
        // Call the instance that is ready, not its clone.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        Either::Right(Box::pin(async move {
            rate_limit.wait().await;
            inner.call(request).await
        }))
    }
}

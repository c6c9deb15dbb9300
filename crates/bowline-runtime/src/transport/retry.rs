//! Retries requests a few times, if that is safe.

use std::error::Error as StdError;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_clock::Clock;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::RETRY_AFTER;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use tower_service::Service;

use super::request::{expects_rejections, reads};
use crate::BoxError;
use crate::metrics::RequestMetrics;

/// Delay after the first broken connection; it doubles each time.
const INITIAL_DELAY: Duration = Duration::from_millis(50);

/// Jitter factor of delays, so that many clients do not retry at once.
const JITTER: f64 = 0.2;

/// Maximum `Retry-After`. It also keeps sums of delays from overflowing.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// Maximum bytes of a rejection that are read, so that its connection can be reused.
const MAX_REJECTION: usize = 64 * 1024;

/// Limits of retries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Maximum attempts, including the first one.
    pub(super) max_attempts: u32,
    /// Maximum total delay of one request.
    pub(super) max_delay: Duration,
}

/// A service that retries some requests:
/// - a read whose connection was closed before a response;
/// - any request that the server rejected as too busy with a `Retry-After`: it had no effect.
///
/// The caller gets the last response or error. Dropping the future ends the retries.
#[derive(Clone)]
pub(super) struct Retry<S> {
    inner: S,
    limits: Limits,
    counts: Option<Arc<RequestMetrics>>,
    clock: Clock,
}

impl<S> Retry<S> {
    pub(super) fn new(inner: S, limits: Limits, counts: Option<Arc<RequestMetrics>>, clock: Clock) -> Self {
        Self { inner, limits, counts, clock }
    }
}

impl<S, B> Service<Request<Body>> for Retry<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // Call the instance that is ready, not its clone.
        let another = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, another);
        Box::pin(send(inner, request, self.limits, self.counts.clone(), self.clock.clone()))
    }
}

async fn send<S, B>(
    mut inner: S,
    request: Request<Body>,
    limits: Limits,
    counts: Option<Arc<RequestMetrics>>,
    clock: Clock,
) -> Result<Response<B>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    B: http_body::Body<Data = Bytes>,
{
    let mut next = Some(request);
    let mut total_delay = Duration::ZERO;
    let mut attempts = 0;
    loop {
        let request = next.take().expect("there is a copy of a request that is sent again");
        attempts += 1;
        next = if attempts < limits.max_attempts { copy(&request) } else { None };
        let (reads, expects_rejections) = (reads(&request), expects_rejections(&request));
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let answer = inner.call(request).await;
        let code = answer.as_ref().map_or(0, |response| response.status().as_u16());
        if let Some(counts) = &counts {
            counts.sent(code, &method);
        }
        let pause = match &answer {
            Ok(response) if !expects_rejections => retry_after(response),
            Err(error) if reads && is_broken(&**error) => {
                Some(INITIAL_DELAY * 2_u32.pow(attempts.min(8) - 1))
            }
            _ => None,
        };
        let Some(pause) = pause.map(|pause| clock.rng().jitter(pause, JITTER)) else { return answer };
        if next.is_none() || total_delay.saturating_add(pause) > limits.max_delay {
            return answer;
        }
        // A single retry is normal; a longer wait should be visible.
        if attempts > 1 {
            tracing::info!(%method, path, code, attempts, ?pause, waited = ?total_delay, "request will be retried");
        } else {
            tracing::debug!(%method, path, code, ?pause, "request will be retried");
        }
        if let Some(counts) = &counts {
            counts.retried(code, &method);
        }
        if let Ok(response) = answer {
            read_rejection(response.into_body()).await;
        }
        total_delay += pause;
        clock.sleep(pause).await;
        std::future::poll_fn(|cx| inner.poll_ready(cx)).await?;
    }
}

/// The server's `Retry-After`, if the request had no effect; at most [`MAX_RETRY_AFTER`].
fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    if !matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
}

/// Whether a connection was closed before a response.
fn is_broken(error: &(dyn StdError + 'static)) -> bool {
    let mut source = Some(error);
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<hyper::Error>()
            && (error.is_incomplete_message() || error.is_canceled() || error.is_closed())
        {
            return true;
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return matches!(
                error.kind(),
                io::ErrorKind::BrokenPipe
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::UnexpectedEof
            );
        }
        source = error.source();
    }
    false
}

/// A copy of the request; `None` if its body can be read only once.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

async fn read_rejection<B: http_body::Body<Data = Bytes>>(body: B) {
    let mut body = pin!(body);
    let mut read = 0;
    while read < MAX_REJECTION
        && let Some(Ok(frame)) = body.frame().await
    {
        read += frame.data_ref().map_or(0, Bytes::len);
    }
}

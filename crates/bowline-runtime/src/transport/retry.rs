//! Sends a request again when that is safe, a few times.

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

use super::request::{reads, wants_refusals};
use crate::BoxError;
use crate::metrics::RequestMetrics;

/// The first pause after a broken connection; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(50);

/// Pauses are up to so much longer than they have to be, so that many clients do not come back at once.
const JITTER: f64 = 0.2;

/// A refusal is read to its end so that its connection can be used again, unless it is longer than this.
const REFUSAL: usize = 64 * 1024;

/// How often and how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How often a request is sent, the first time included.
    pub(super) tries: u32,
    /// How long all pauses of one request may be together.
    pub(super) pauses: Duration,
}

/// A service that sends some requests again:
/// - one that only reads, when the connection was closed before there was an answer;
/// - any, when the server says that it is too busy and when to come again: it did nothing then.
///
/// The last answer or error is what the caller gets. Dropping the future ends it all.
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
        // The one that was found to be ready is the one to be called.
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
    let mut pauses = Duration::ZERO;
    let mut tried = 0;
    loop {
        let request = next.take().expect("there is a copy of a request that is sent again");
        tried += 1;
        next = if tried < limits.tries { copy(&request) } else { None };
        let (reads, wants_refusals) = (reads(&request), wants_refusals(&request));
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let answer = inner.call(request).await;
        let code = answer.as_ref().map_or(0, |response| response.status().as_u16());
        if let Some(counts) = &counts {
            counts.sent(code, &method);
        }
        let pause = match &answer {
            Ok(response) if !wants_refusals => asked_pause(response),
            Err(error) if reads && is_broken(&**error) => Some(PAUSE * 2_u32.pow(tried.min(8) - 1)),
            _ => None,
        };
        let Some(pause) = pause.map(|pause| clock.rng().jitter(pause, JITTER)) else { return answer };
        if next.is_none() || pauses + pause > limits.pauses {
            return answer;
        }
        // One pause is nothing special. Who waits for longer should be able to see what for.
        if tried > 1 {
            tracing::info!(%method, path, code, tried, ?pause, waited = ?pauses, "a request is sent again after a pause");
        } else {
            tracing::debug!(%method, path, code, ?pause, "a request is sent again after a pause");
        }
        if let Some(counts) = &counts {
            counts.retried(code, &method);
        }
        if let Ok(response) = answer {
            read_refusal(response.into_body()).await;
        }
        pauses += pause;
        clock.sleep(pause).await;
        std::future::poll_fn(|cx| inner.poll_ready(cx)).await?;
    }
}

/// How long the server asks to wait, if it did nothing but to say so.
fn asked_pause<B>(response: &Response<B>) -> Option<Duration> {
    if !matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Whether a connection was closed before there was an answer.
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

/// The same request once more; none if its body can be read only once.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

async fn read_refusal<B: http_body::Body<Data = Bytes>>(body: B) {
    let mut body = pin!(body);
    let mut read = 0;
    while read < REFUSAL
        && let Some(Ok(frame)) = body.frame().await
    {
        read += frame.data_ref().map_or(0, Bytes::len);
    }
}

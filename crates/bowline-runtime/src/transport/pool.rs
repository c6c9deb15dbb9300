//! Connections to one server, and the service that sends requests over them.

use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bowline_clock::{Clock, Scope, Sleep};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{ACCEPT_ENCODING, HOST, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use kube::client::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_service::Service;

use super::RequestError;
use super::connection::{Connection, Connector};
use super::deadline::{RequestProgress, Stage};
use super::request::is_for_object;
use crate::BoxError;

/// Idle time after which a connection is closed; kube-apiserver closes them after 90 s.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum idle connections.
const MAX_IDLE: usize = 32;

/// Maximum bytes of an error response that are read.
const MAX_ERROR: usize = 64 * 1024;

/// Maximum bytes of a response with one object.
const MAX_OBJECT: usize = 16 * 1024 * 1024;

const AGENT: &str = concat!("bowline/", env!("CARGO_PKG_VERSION"));

/// Sends requests to one server, each over a connection of its own.
#[derive(Clone)]
pub(super) struct Pool(Arc<Shared>);

struct Shared {
    connector: Connector,
    host: HeaderValue,
    /// Maximum time until the next chunk of a response.
    read_timeout: Duration,
    clock: Clock,
    idle: Mutex<Vec<Connection>>,
    /// One permit per request that is not a stream.
    permits: Arc<Semaphore>,
    _scope: Scope,
}

/// Limits of a pool.
pub(super) struct PoolLimits {
    /// Maximum concurrent requests that are not streams.
    pub(super) requests: usize,
    /// Maximum time until the next chunk of a response.
    pub(super) read_timeout: Duration,
}

impl Pool {
    /// Must be called in a tokio runtime.
    pub(super) fn new(connector: Connector, host: HeaderValue, limits: &PoolLimits, clock: Clock) -> Self {
        let scope = clock.scope("transport");
        let spawner = scope.spawner();
        let shared = Arc::new(Shared {
            connector,
            host,
            read_timeout: limits.read_timeout,
            clock: clock.clone(),
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(limits.requests)),
            _scope: scope,
        });
        spawner.spawn("sweeper", sweep(Arc::downgrade(&shared), clock));
        Self(shared)
    }

    /// The server's name, for people.
    pub(super) fn server(&self) -> &str {
        self.0.connector.name()
    }

    /// Closes all idle connections, which are probably broken.
    pub(super) fn close_idle(&self) {
        self.0.close_idle();
    }

    async fn send(self, mut request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        let progress = match request.extensions_mut().remove::<RequestProgress>() {
            Some(progress) => progress,
            None => RequestProgress::new(&request),
        };
        self.prepare(&mut request);
        if progress.is_long_running() {
            return self.exchange(request, &progress, None, None).await;
        }
        progress.reach(Stage::Permit);
        let permit = self.0.permits.clone().acquire_owned().await?;
        let read_timeout = ReadTimeout::new(self.0.clock.clone(), self.0.read_timeout, progress.clone());
        self.exchange(request, &progress, Some(permit), Some(read_timeout)).await
    }

    fn prepare(&self, request: &mut Request<Body>) {
        let target = request.uri().path_and_query().cloned();
        *request.uri_mut() = Uri::from(target.unwrap_or_else(|| PathAndQuery::from_static("/")));
        let is_get = request.method() == Method::GET;
        let headers = request.headers_mut();
        headers.entry(HOST).or_insert_with(|| self.0.host.clone());
        headers.entry(USER_AGENT).or_insert_with(|| HeaderValue::from_static(AGENT));
        if is_get {
            // Events must arrive without delay, and responses are not decompressed here.
            headers.entry(ACCEPT_ENCODING).or_insert_with(|| HeaderValue::from_static("identity"));
        }
    }

    async fn exchange(
        &self,
        mut request: Request<Body>,
        progress: &RequestProgress,
        permit: Option<OwnedSemaphorePermit>,
        read_timeout: Option<ReadTimeout>,
    ) -> Result<Response<Answer>, BoxError> {
        let is_for_object = is_for_object(&request);
        loop {
            progress.reach(Stage::Connection);
            let (mut connection, is_new) = match self.0.take() {
                Some(connection) => (connection, false),
                None => (self.0.connector.connect().await?, true),
            };
            progress.reach(Stage::Answer);
            // No fence is checked after this point.
            tracing::trace!(request = progress.request(), is_new, "sending");
            match connection.send(request).await {
                Ok(response) => {
                    let limit = Limit::new(response.status(), is_for_object);
                    return Ok(self.answer(response, limit, connection, permit, read_timeout));
                }
                Err(mut error) => match error.take_message() {
                    // The server closed an idle connection before anything was sent.
                    Some(unsent) if !is_new => request = unsent,
                    _ => return Err(error.into_error().into()),
                },
            }
        }
    }

    fn answer(
        &self,
        response: Response<Incoming>,
        limit: Limit,
        mut connection: Connection,
        permit: Option<OwnedSemaphorePermit>,
        read_timeout: Option<ReadTimeout>,
    ) -> Response<Answer> {
        let (head, body) = response.into_parts();
        let mut connection = if head.status == StatusCode::SWITCHING_PROTOCOLS {
            // The connection belongs to the upgraded stream, after one more poll.
            let is_http = connection.is_ready();
            tracing::debug!(is_http, "connection upgraded");
            None
        } else {
            Some(connection)
        };
        let is_whole = http_body::Body::is_end_stream(&body);
        if is_whole && let Some(connection) = connection.take() {
            self.0.keep(connection);
        }
        let permit = permit.filter(|_| !is_whole);
        let body =
            Answer { body, limit, is_empty: false, connection, pool: self.0.clone(), permit, read_timeout };
        Response::from_parts(head, body)
    }
}

impl Service<Request<Body>> for Pool {
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

impl Shared {
    /// The most recently used connection that is still usable.
    fn take(&self) -> Option<Connection> {
        loop {
            let mut connection = self.idle().pop()?;
            if self.clock.now().duration_since(connection.since()) < IDLE_TIMEOUT && connection.is_ready() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection after its response was read to the end.
    fn keep(&self, mut connection: Connection) {
        connection.used(self.clock.now());
        let mut idle = self.idle();
        if idle.len() < MAX_IDLE {
            idle.push(connection);
        }
    }

    fn close_idle(&self) {
        // Connections are closed after the lock is released.
        let idle = mem::take(&mut *self.idle());
        if !idle.is_empty() {
            tracing::debug!(connections = idle.len(), "idle connections closed");
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes connections that are idle for too long, also if there are no requests.
async fn sweep(pool: Weak<Shared>, clock: Clock) {
    loop {
        clock.sleep(IDLE_TIMEOUT / 4).await;
        let Some(pool) = pool.upgrade() else { return };
        let now = clock.now();
        pool.idle().retain(|connection| now.duration_since(connection.since()) < IDLE_TIMEOUT);
    }
}

/// Limit of a response body. A truncated error is enough; a truncated object is an error.
#[derive(Debug)]
struct Limit {
    left: usize,
    is_error: bool,
    is_reached: bool,
}

impl Limit {
    fn new(status: StatusCode, is_for_object: bool) -> Self {
        let is_error = status.is_client_error() || status.is_server_error();
        let left = match (is_error, is_for_object) {
            (true, _) => MAX_ERROR,
            (false, true) => MAX_OBJECT,
            (false, false) => usize::MAX,
        };
        Self { left, is_error, is_reached: false }
    }

    fn cut(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        frame.map_data(|mut data| {
            self.is_reached = data.len() > self.left;
            data.truncate(self.left);
            self.left -= data.len();
            data
        })
    }
}

/// The body of a response. Its reader drives the connection, and returns it to the pool at the end.
pub(super) struct Answer {
    body: Incoming,
    limit: Limit,
    /// Whether the last frame came from driving the connection, so that no other one is ready yet.
    is_empty: bool,
    connection: Option<Connection>,
    pool: Arc<Shared>,
    permit: Option<OwnedSemaphorePermit>,
    read_timeout: Option<ReadTimeout>,
}

impl Answer {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // Only driving the connection makes progress, and that happens here.
        let mut unwoken = Context::from_waker(Waker::noop());
        if !mem::take(&mut self.is_empty)
            && let Poll::Ready(frame) = http_body::Body::poll_frame(Pin::new(&mut self.body), &mut unwoken)
        {
            return Poll::Ready(frame);
        }
        let Some(connection) = &mut self.connection else {
            return http_body::Body::poll_frame(Pin::new(&mut self.body), cx);
        };
        let is_closed = connection.poll_drive(cx).is_ready();
        let frame = http_body::Body::poll_frame(Pin::new(&mut self.body), &mut unwoken);
        self.is_empty = frame.is_ready();
        if is_closed {
            self.connection = None;
            if frame.is_pending() {
                return http_body::Body::poll_frame(Pin::new(&mut self.body), cx);
            }
        }
        frame
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if this.limit.is_reached {
            return Poll::Ready(
                (!this.limit.is_error).then(|| Err("the response is longer than 16 MiB".into())),
            );
        }
        match this.poll_data(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let frame = this.limit.cut(frame);
                if this.limit.is_reached {
                    (this.connection, this.permit) = (None, None);
                }
                if let Some(read_timeout) = &mut this.read_timeout {
                    read_timeout.is_new = true;
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                (this.connection, this.permit) = (None, None);
                Poll::Ready(Some(Err(error.into())))
            }
            Poll::Ready(None) => {
                if let Some(connection) = this.connection.take() {
                    this.pool.keep(connection);
                }
                this.permit = None;
                Poll::Ready(None)
            }
            Poll::Pending => {
                let Some(read_timeout) = &mut this.read_timeout else { return Poll::Pending };
                ready!(read_timeout.poll_over(cx));
                let (request, limit) = (read_timeout.progress.request(), read_timeout.limit);
                (this.connection, this.permit, this.read_timeout) = (None, None, None);
                this.pool.close_idle();
                Poll::Ready(Some(Err(RequestError::Timeout { request, limit }.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // Some readers do not poll again after the last byte.
        if http_body::Body::is_end_stream(&self.body)
            && let Some(connection) = self.connection.take()
        {
            self.pool.keep(connection);
        }
    }
}

/// Timeout for the next chunk of a response.
struct ReadTimeout {
    clock: Clock,
    limit: Duration,
    progress: RequestProgress,
    /// Whether data arrived since the timer was set.
    is_new: bool,
    timer: Option<Sleep>,
}

impl ReadTimeout {
    fn new(clock: Clock, limit: Duration, progress: RequestProgress) -> Self {
        Self { clock, limit, progress, is_new: true, timer: None }
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if mem::take(&mut self.is_new) {
            self.timer = Some(self.clock.sleep(self.limit));
        }
        match &mut self.timer {
            Some(timer) => Pin::new(timer).poll(cx),
            None => Poll::Pending,
        }
    }
}

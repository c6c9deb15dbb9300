//! The connections to one server, and the service that sends requests over them.

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
use super::deadline::{Passage, Stage};
use crate::BoxError;

/// A connection that was not used for so long is not used again: servers close such ones, kube-apiserver after 90 s.
const IDLE: Duration = Duration::from_secs(60);

/// So many connections are kept for later.
const KEPT: usize = 32;

const AGENT: &str = concat!("bowline/", env!("CARGO_PKG_VERSION"));

/// Sends requests to one server, each over a connection of its own while it lasts.
#[derive(Clone)]
pub(super) struct Pool(Arc<Shared>);

struct Shared {
    connector: Connector,
    host: HeaderValue,
    /// How long an answer, or its next piece, may take.
    patience: Duration,
    clock: Clock,
    idle: Mutex<Vec<Connection>>,
    /// A turn for each request that does not last.
    turns: Arc<Semaphore>,
    _scope: Scope,
}

/// How many and how long.
pub(super) struct PoolLimits {
    /// How many requests that do not last may be under way.
    pub(super) requests: usize,
    /// How long the next piece of an answer may take.
    pub(super) patience: Duration,
}

impl Pool {
    /// Must be called inside a tokio runtime.
    pub(super) fn new(connector: Connector, host: HeaderValue, limits: &PoolLimits, clock: Clock) -> Self {
        let scope = clock.scope("transport");
        let spawner = scope.spawner();
        let shared = Arc::new(Shared {
            connector,
            host,
            patience: limits.patience,
            clock: clock.clone(),
            idle: Mutex::default(),
            turns: Arc::new(Semaphore::new(limits.requests)),
            _scope: scope,
        });
        spawner.spawn("sweeper", sweep(Arc::downgrade(&shared), clock));
        Self(shared)
    }

    /// The server, for people.
    pub(super) fn server(&self) -> &str {
        self.0.connector.name()
    }

    /// Closes the connections that are kept: there is reason to believe that they are of no use.
    pub(super) fn forget(&self) {
        self.0.forget();
    }

    async fn send(self, mut request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        let passage = match request.extensions_mut().remove::<Passage>() {
            Some(passage) => passage,
            None => Passage::new(&request),
        };
        self.prepare(&mut request);
        if passage.lasts() {
            return self.exchange(request, &passage, None, None).await;
        }
        passage.reach(Stage::Turn);
        let turn = self.0.turns.clone().acquire_owned().await?;
        let patience = Patience::new(self.0.clock.clone(), self.0.patience, passage.clone());
        self.exchange(request, &passage, Some(turn), Some(patience)).await
    }

    fn prepare(&self, request: &mut Request<Body>) {
        let target = request.uri().path_and_query().cloned();
        *request.uri_mut() = Uri::from(target.unwrap_or_else(|| PathAndQuery::from_static("/")));
        let is_get = request.method() == Method::GET;
        let headers = request.headers_mut();
        headers.entry(HOST).or_insert_with(|| self.0.host.clone());
        headers.entry(USER_AGENT).or_insert_with(|| HeaderValue::from_static(AGENT));
        if is_get {
            // Events have to come as they happen, and nothing here reads what is compressed.
            headers.entry(ACCEPT_ENCODING).or_insert_with(|| HeaderValue::from_static("identity"));
        }
    }

    async fn exchange(
        &self,
        mut request: Request<Body>,
        passage: &Passage,
        turn: Option<OwnedSemaphorePermit>,
        patience: Option<Patience>,
    ) -> Result<Response<Answer>, BoxError> {
        loop {
            passage.reach(Stage::Connection);
            let (mut connection, is_new) = match self.0.take() {
                Some(connection) => (connection, false),
                None => (self.0.connector.connect().await?, true),
            };
            passage.reach(Stage::Answer);
            // Nothing looks at a fence after this.
            tracing::trace!(request = passage.request(), is_new, "sending");
            match connection.send(request).await {
                Ok(response) => return Ok(self.answer(response, connection, turn, patience)),
                Err(mut error) => match error.take_message() {
                    // The server had closed a connection that was kept, before anything was sent.
                    Some(unsent) if !is_new => request = unsent,
                    _ => return Err(error.into_error().into()),
                },
            }
        }
    }

    fn answer(
        &self,
        response: Response<Incoming>,
        mut connection: Connection,
        turn: Option<OwnedSemaphorePermit>,
        patience: Option<Patience>,
    ) -> Response<Answer> {
        let (head, body) = response.into_parts();
        let mut connection = if head.status == StatusCode::SWITCHING_PROTOCOLS {
            // It is whoever takes the upgrade's, or becomes it when it is driven once more.
            let is_http = connection.is_ready();
            tracing::debug!(is_http, "a connection speaks another protocol now");
            None
        } else {
            Some(connection)
        };
        let is_whole = http_body::Body::is_end_stream(&body);
        if is_whole && let Some(connection) = connection.take() {
            self.0.keep(connection);
        }
        let turn = turn.filter(|_| !is_whole);
        let body = Answer { body, is_empty: false, connection, pool: self.0.clone(), turn, patience };
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
    /// The connection that was used last, if it is of use.
    fn take(&self) -> Option<Connection> {
        loop {
            let mut connection = self.idle().pop()?;
            if self.clock.now().since(connection.since()) < IDLE && connection.is_ready() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection whose answer was read to its end.
    fn keep(&self, mut connection: Connection) {
        connection.used(self.clock.now());
        let mut idle = self.idle();
        if idle.len() < KEPT {
            idle.push(connection);
        }
    }

    fn forget(&self) {
        // Closed when the lock is free again.
        let forgotten = mem::take(&mut *self.idle());
        if !forgotten.is_empty() {
            tracing::debug!(
                connections = forgotten.len(),
                "a server was silent; connections to it are closed"
            );
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes connections that nobody used for long, also when there are no requests.
async fn sweep(pool: Weak<Shared>, clock: Clock) {
    loop {
        clock.sleep(IDLE / 4).await;
        let Some(pool) = pool.upgrade() else { return };
        let now = clock.now();
        pool.idle().retain(|connection| now.since(connection.since()) < IDLE);
    }
}

/// The body of an answer. Whoever reads it drives the connection that it comes over, and gives that back at the end.
pub(super) struct Answer {
    body: Incoming,
    /// Its last piece came when the connection was driven, so that none is behind it yet.
    is_empty: bool,
    connection: Option<Connection>,
    pool: Arc<Shared>,
    turn: Option<OwnedSemaphorePermit>,
    patience: Option<Patience>,
}

impl Answer {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // Only what drives the connection brings more of the body, and that is done here.
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
        match this.poll_data(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(patience) = &mut this.patience {
                    patience.is_new = true;
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                (this.connection, this.turn) = (None, None);
                Poll::Ready(Some(Err(error.into())))
            }
            Poll::Ready(None) => {
                if let Some(connection) = this.connection.take() {
                    this.pool.keep(connection);
                }
                this.turn = None;
                Poll::Ready(None)
            }
            Poll::Pending => {
                let Some(patience) = &mut this.patience else { return Poll::Pending };
                ready!(patience.poll_over(cx));
                let (request, limit) = (patience.passage.request(), patience.limit);
                (this.connection, this.turn, this.patience) = (None, None, None);
                this.pool.forget();
                Poll::Ready(Some(Err(RequestError::Silent { request, limit }.into())))
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
        // Not everybody asks once more after the last byte.
        if http_body::Body::is_end_stream(&self.body)
            && let Some(connection) = self.connection.take()
        {
            self.pool.keep(connection);
        }
    }
}

/// How long to wait for the next piece of an answer.
struct Patience {
    clock: Clock,
    limit: Duration,
    passage: Passage,
    /// Something came since the timer was set.
    is_new: bool,
    timer: Option<Sleep>,
}

impl Patience {
    fn new(clock: Clock, limit: Duration, passage: Passage) -> Self {
        Self { clock, limit, passage, is_new: true, timer: None }
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

//! The servers of a program: what it tells over HTTP about itself.
//!
//! [`MetricsServer`] answers scrapes, [`HealthServer`](crate::health::HealthServer) answers probes, and [`Server`] is what
//! both stand on, for whoever has other things to tell. A server is a value: [`bind`](Server::bind) takes its address, and
//! [`serve`](Bound::serve) answers until it is told to stop.
//!
//! They are meant to stay up while clients misbehave. There is a limit to connections, to how long each may be silent, to
//! what a request, and all of them together, may carry and to how long an answer may take; when there are too many connections, those that ask nothing
//! go first. HTTP/1.1 only: there is nothing here that a second request on the same connection would be faster for.

mod address;
mod connection;
mod guard;
mod handler;
mod metrics;
mod negotiation;
mod place;
mod tls;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use bowline_clock::{Clock, Spawner};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::Metrics;
use crate::metrics::CertificateReads;

pub use address::{BindAddress, BindAddressError};
use connection::Connection;
use guard::Guard;
pub(crate) use handler::refuse_change;
use handler::{Handler, Route, Routes};
pub use handler::{Request, Response, text};
pub use metrics::MetricsServer;
use place::Resting;
use tls::Shown;
pub use tls::{Tls, TlsError};

/// How long no connection is taken when the system has no more of them to give.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// Answers HTTP requests by their path.
///
/// ```no_run
/// use bowline_clock::Clock;
/// use bowline_runtime::server::{Server, text};
/// use http::StatusCode;
/// use tokio_util::sync::CancellationToken;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let scope = Clock::real().scope("greetings");
/// let server = Server::new("greetings", "127.0.0.1:8000".parse()?)
///     .handler("/hello", |_request| async { text(StatusCode::OK, "hello") });
/// if let Some(bound) = server.bind(&scope.spawner()).await? {
///     println!("listening on {}", bound.address());
///     bound.serve(CancellationToken::new()).await;
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a server does nothing until it is bound"]
pub struct Server {
    purpose: String,
    address: BindAddress,
    handlers: Vec<(String, Route)>,
    tls: Option<Tls>,
    reads: CertificateReads,
    authority: Option<kube::Client>,
    limits: Limits,
}

/// What clients may do.
#[derive(Clone, Copy, Debug)]
struct Limits {
    connections: NonZero<usize>,
    /// Until the headers of the first request are there, TLS included.
    first_request: Duration,
    /// Until an answer was taken and the headers of the next request are there.
    idle: Duration,
    /// Until the body of a request is there.
    request: Duration,
    /// Until there is an answer.
    response: Duration,
    /// The bytes of a body.
    body: usize,
    /// The bytes of all bodies.
    bodies: usize,
    /// For all that is under way when the server stops.
    stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let [first_request, idle, request, response, stop] = [10, 90, 10, 30, 10].map(Duration::from_secs);
        let connections = NonZero::new(256).expect("256 is not 0");
        Self { connections, first_request, idle, request, response, body: 4 << 20, bodies: 32 << 20, stop }
    }
}

impl Server {
    /// A server at an address. `purpose` is what it is called in logs and errors, as in "cannot listen on :8080 for
    /// metrics".
    pub fn new(purpose: impl Into<String>, address: BindAddress) -> Self {
        Self {
            purpose: purpose.into(),
            address,
            handlers: Vec::new(),
            tls: None,
            reads: CertificateReads::default(),
            authority: None,
            limits: Limits::default(),
        }
    }

    /// Answers over TLS. In plain HTTP, by default.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Answers only whom the API server lets: a request has to carry a token (`Authorization: Bearer`), and its owner has
    /// to be allowed the method, in small letters, on the path (`nonResourceURLs` in a `ClusterRole`). Needs
    /// [`tls`](Self::tls). Everybody is answered, by default.
    ///
    /// The client needs `create` on `tokenreviews` and `subjectaccessreviews`. What it is told is kept: for a minute whose a
    /// token is, for five minutes that something is allowed, for 30 s that it is not. A token that is nobody's is answered
    /// with 401, something that is not allowed with 403, and with 500 when the API server does not say.
    pub fn authenticated(mut self, client: kube::Client) -> Self {
        self.authority = Some(client);
        self
    }

    /// Where it is counted how often the certificate was read (`certwatcher_read_certificate_total` and
    /// `certwatcher_read_certificate_errors_total`). Nowhere, by default.
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.reads = metrics.certificates().clone();
        self
    }

    /// What answers the requests for a path; if that ends with a slash, also those for all below it that have no handler of
    /// their own. There are none by default, and what has no handler is answered with 404.
    ///
    /// A handler gets the whole body of a request, and is dropped when its client goes or when it takes too long. One that
    /// panics is answered with 500, and logged. A service of tower's is a handler by `move |request|
    /// service.clone().oneshot(request)`, once its errors are answers.
    pub fn handler<F, R>(self, path: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Request) -> R + Send + Sync + 'static,
        R: Future<Output = Response> + Send + 'static,
    {
        self.route(path, handler, false)
    }

    /// As [`handler`](Self::handler), where there is nothing to change: other methods than `GET` and `HEAD` are answered
    /// with 405, and a body with 413, before anything of it is read.
    pub(crate) fn read_only<F, R>(self, path: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Request) -> R + Send + Sync + 'static,
        R: Future<Output = Response> + Send + 'static,
    {
        self.route(path, handler, true)
    }

    fn route<F, R>(mut self, path: impl Into<String>, handler: F, is_read_only: bool) -> Self
    where
        F: Fn(Request) -> R + Send + Sync + 'static,
        R: Future<Output = Response> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |request| Box::pin(handler(request)));
        self.handlers.push((path.into(), Route { handler, is_read_only }));
        self
    }

    /// How many connections there may be at once: 256, by default. One more has to wait, and the one on which nothing was
    /// asked for longest is closed for it.
    pub fn max_connections(mut self, connections: NonZero<usize>) -> Self {
        self.limits.connections = connections;
        self
    }

    /// How long a new connection may take until the headers of its first request are there, TLS included: 10 s, by default.
    pub fn first_request(mut self, limit: Duration) -> Self {
        self.limits.first_request = limit;
        self
    }

    /// How long a client may take to read an answer and to ask again: 90 s, by default.
    pub fn idle(mut self, limit: Duration) -> Self {
        self.limits.idle = limit;
        self
    }

    /// How long a client may take to send the body of a request: 10 s, by default. Then the answer is 408.
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.limits.request = limit;
        self
    }

    /// How long a handler may take: 30 s, by default. Then the answer is 503.
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.limits.response = limit;
        self
    }

    /// How long the body of a request may be: 4 MiB, by default. Beyond that the answer is 413; at once, if the client says
    /// how long it is, or if this is 0.
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.limits.body = bytes;
        self
    }

    /// How many bytes the bodies of all requests may have together, from when they come until they are answered: 32 MiB, by
    /// default. Beyond that the answer is 503.
    pub fn max_bodies(mut self, bytes: usize) -> Self {
        self.limits.bodies = bytes;
        self
    }

    /// How long what is being answered may take when the server stops: 10 s, by default. Then it is cut. Who only reads an
    /// answer then, or has not asked in full, has a second.
    pub fn stop_timeout(mut self, limit: Duration) -> Self {
        self.limits.stop = limit;
        self
    }

    /// Takes the address, so that clients can connect; they are answered by [`Bound::serve`]. None if the address says
    /// that there is no server. Connections will be tasks below the scope of this spawner.
    ///
    /// # Errors
    /// [`ServerError`]
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn bind(self, spawner: &Spawner) -> Result<Option<Bound>, ServerError> {
        let Self { purpose, address, handlers, tls, reads, authority, limits } = self;
        if address.is_off() {
            return Ok(None);
        }
        if authority.is_some() && tls.is_none() {
            return Err(ServerError::Unprotected { purpose });
        }
        let mut routes = Routes::default();
        for (path, route) in handlers {
            routes.add(&purpose, path, route)?;
        }
        let shown = match tls {
            Some(tls) => match tls.load(spawner, reads).await {
                Ok(shown) => Some(shown),
                Err(source) => return Err(ServerError::Tls { purpose, source }),
            },
            None => None,
        };
        let listened = address.listen().await;
        let (listener, bound) = match listened.and_then(|listener| Ok((listener.local_addr()?, listener))) {
            Ok((bound, listener)) => (listener, bound),
            Err(error) => return Err(ServerError::listen(address, purpose, error)),
        };
        tracing::info!(address = %bound, "listening for {purpose}");
        let connection = Arc::new(Connection {
            routes,
            tls: shown.as_ref().map(Shown::acceptor),
            guard: authority.map(|authority| Guard::new(authority, spawner.clock().clone())),
            bodies: Semaphore::new(limits.bodies.min(Semaphore::MAX_PERMITS)),
            limits,
            clock: spawner.clock().clone(),
        });
        Ok(Some(Bound { purpose, listener, address: bound, shown, connection, spawner: spawner.clone() }))
    }
}

/// A [`Server`] that has its address.
#[must_use = "clients wait until it serves"]
pub struct Bound {
    purpose: String,
    listener: TcpListener,
    address: SocketAddr,
    shown: Option<Shown>,
    connection: Arc<Connection>,
    spawner: Spawner,
}

impl Bound {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` is cancelled, or the scope that the server belongs to ends. Then it takes no more connections
    /// and requests, closes those that wait, and waits for what is being answered; what takes too long is cut and named in
    /// the log. When this is dropped, all connections are cut.
    pub async fn serve(self, stop: CancellationToken) {
        let Self { purpose, listener, address, shown, connection, spawner } = self;
        let (limits, clock) = (connection.limits, spawner.clock());
        let connections = spawner.scope(&purpose);
        let closed = connections.cancellation();
        let mut renewed = std::pin::pin!(async {
            match shown {
                Some(shown) => shown.renew(&connections.spawner()).await,
                None => std::future::pending().await,
            }
        });
        let door = Door {
            permits: Arc::new(Semaphore::new(limits.connections.get().min(Semaphore::MAX_PERMITS))),
            resting: Arc::default(),
            listener,
            clock: clock.clone(),
        };
        loop {
            let entered = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = closed.cancelled() => break,
                never = renewed.as_mut() => match never {},
                entered = door.enter() => entered,
            };
            let Some((stream, permit)) = entered else { continue };
            let place = door.resting.enter(clock, limits.first_request);
            let (connection, closed) = (connection.clone(), closed.clone());
            connections.spawn("connection", async move {
                connection.run(stream, place, closed).await;
                drop(permit);
            });
        }
        drop(door);
        let drained = connections.drain(limits.stop).await;
        if !drained.is_clean() {
            let cut = drained.left().len();
            tracing::warn!(%address, cut, "answers for {purpose} took too long to stop");
        }
    }
}

/// Where connections come in.
struct Door {
    listener: TcpListener,
    permits: Arc<Semaphore>,
    resting: Arc<Resting>,
    clock: Clock,
}

impl Door {
    /// The next connection, and its permit.
    async fn enter(&self) -> Option<(TcpStream, OwnedSemaphorePermit)> {
        let stream = match self.listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) if is_of_one_connection(&error) => return None,
            Err(error) => {
                tracing::warn!(%error, "no connection can be taken");
                let _ = self.clock.timeout(EXHAUSTED, self.resting.close_oldest(&self.clock)).await;
                self.clock.sleep(EXHAUSTED).await;
                return None;
            }
        };
        loop {
            tokio::select! {
                biased;
                permit = self.permits.clone().acquire_owned() => return Some((stream, permit.ok()?)),
                () = self.resting.close_oldest(&self.clock) => {}
            }
        }
    }
}

/// Errors of `accept` that are about the connection that it would have been.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Somebody else listens there.
    #[error(
        "cannot listen on {address} for {purpose}: address in use: choose another address, or \"0\" for none"
    )]
    Taken {
        /// Where.
        address: BindAddress,
        /// What for.
        purpose: String,
    },
    /// This process may not listen there.
    #[error(
        "cannot listen on {address} for {purpose}: no permission: choose a port above 1023, or \"0\" for none"
    )]
    Forbidden {
        /// Where.
        address: BindAddress,
        /// What for.
        purpose: String,
    },
    /// It cannot be listened there for another reason.
    #[error("cannot listen on {address} for {purpose}: choose an address of this machine, or \"0\" for none")]
    Listen {
        /// Where.
        address: BindAddress,
        /// What for.
        purpose: String,
        /// Why.
        source: io::Error,
    },
    /// There is no certificate.
    #[error("the server for {purpose} has no certificate")]
    Tls {
        /// What the server is for.
        purpose: String,
        /// Why.
        source: TlsError,
    },
    /// Tokens would be sent in the open.
    #[error("the server for {purpose} asks for tokens, which everybody could read on their way: give it TLS")]
    Unprotected {
        /// What the server is for.
        purpose: String,
    },
    /// A path that cannot have a handler.
    #[error("the server for {purpose} cannot have a handler for {path:?}: {problem}")]
    Path {
        /// What the server is for.
        purpose: String,
        /// The path.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl ServerError {
    fn listen(address: BindAddress, purpose: String, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::Taken { address, purpose },
            io::ErrorKind::PermissionDenied => Self::Forbidden { address, purpose },
            _ => Self::Listen { address, purpose, source },
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<&str> = self.handlers.iter().map(|(path, _)| &**path).collect();
        f.debug_struct("Server")
            .field("purpose", &self.purpose)
            .field("address", &self.address)
            .field("paths", &paths)
            .field("tls", &self.tls)
            .field("is_authenticated", &self.authority.is_some())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound")
            .field("purpose", &self.purpose)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

//! HTTP servers of a program.
//!
//! [`MetricsServer`] serves metrics, [`HealthServer`](crate::health::HealthServer) serves probes. [`Server`] is their
//! common base, also for other pages. [`bind`](Server::bind) opens the port, and [`serve`](Bound::serve) answers until
//! it is stopped.
//!
//! The servers limit connections, idle times, request bodies (each and in total) and response times, so that misbehaving
//! clients cannot exhaust them. When there are too many connections, idle ones are closed first. HTTP/1.1 only: HTTP/2
//! would have no advantage here.

mod address;
mod connection;
mod connection_slot;
mod handler;
mod local;
mod metrics;
mod negotiation;
mod tls;
mod token_authorizer;

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
use connection_slot::IdleConnections;
pub(crate) use handler::refuse_change;
use handler::{Access, Handler, Route, Routes};
pub use handler::{Request, Response, text};
pub use metrics::MetricsServer;
use tls::ServingCertificate;
pub use tls::{Tls, TlsError};
use token_authorizer::TokenAuthorizer;

/// Pause before the next accept after the system ran out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Answers HTTP requests by path.
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

/// Limits for clients.
#[derive(Clone, Copy, Debug)]
struct Limits {
    connections: NonZero<usize>,
    /// Time until the headers of the first request, including TLS.
    first_request: Duration,
    /// Time to read a response and send the headers of the next request.
    idle: Duration,
    /// Time to receive a request body.
    request: Duration,
    /// Time for a handler.
    response: Duration,
    /// Maximum bytes of a body.
    body: usize,
    /// Maximum bytes of all bodies together.
    bodies: usize,
    /// Time for requests in progress when the server stops.
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
    /// Creates a server at an address. `purpose` is used in logs and errors, as in "cannot listen on :8080 for
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

    /// Serves over TLS. Default: plain HTTP.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Requires authentication and authorization by an API server. A request needs a token (`Authorization: Bearer`),
    /// whose user must be allowed the method, in lower case, on the path (`nonResourceURLs` in a `ClusterRole`).
    /// Requires [`tls`](Self::tls). Default: no authentication.
    ///
    /// The client needs `create` on `tokenreviews` and `subjectaccessreviews`. Results are cached: the user of a token
    /// for 1 minute, a permission for 5 minutes, a denial for 30 s. The response is 401 for an invalid token, 403 for a
    /// missing permission, and 500 if the API server does not answer.
    ///
    /// A text that is not a JWT or is longer than 8 KiB gets 401 without a request to the API server. Unknown tokens
    /// are reviewed at most 10 times per second, with a burst of 20; further ones get 429. Tokens that were accepted
    /// before have no limit.
    pub fn authenticated(mut self, client: kube::Client) -> Self {
        self.authority = Some(client);
        self
    }

    /// Counts reads of the certificate (`certwatcher_read_certificate_total` and
    /// `certwatcher_read_certificate_errors_total`). Default: none.
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.reads = metrics.certificates().clone();
        self
    }

    /// Adds a handler for a path; if it ends with a slash, also for all paths below it without a handler of their own.
    /// Default: none; other paths get 404.
    ///
    /// A handler gets the complete body. It is dropped when its client disconnects or when it takes too long. If it
    /// panics, the response is 500, and the panic is logged. A tower service is a handler as `move |request|
    /// service.clone().oneshot(request)`, with its errors converted to responses.
    pub fn handler<F, R>(self, path: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Request) -> R + Send + Sync + 'static,
        R: Future<Output = Response> + Send + 'static,
    {
        self.route(path, handler, Access::Any)
    }

    /// Like [`handler`](Self::handler), for read-only paths: methods other than `GET` and `HEAD` get 405, and a body
    /// gets 413, before any of it is read.
    pub(crate) fn read_only<F, R>(self, path: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Request) -> R + Send + Sync + 'static,
        R: Future<Output = Response> + Send + 'static,
    {
        self.route(path, handler, Access::ReadOnly)
    }

    /// Like [`handler`](Self::handler), for a page that a web site must not read through a visitor's browser. Without
    /// TLS the server must listen on loopback: [`bind`](Self::bind) rejects other addresses. A request whose `Host` is
    /// neither an IP address nor `localhost` then gets 403. This prevents DNS rebinding: a site whose name points to
    /// 127.0.0.1 cannot change the `Host` that a browser sends.
    pub(crate) fn private<F, R>(self, path: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Request) -> R + Send + Sync + 'static,
        R: Future<Output = Response> + Send + 'static,
    {
        self.route(path, handler, Access::Private)
    }

    /// Rejects a [private](Self::private) path in plain HTTP at an address that is certainly not loopback. A host name
    /// is resolved and checked only by [`bind`](Self::bind).
    pub(crate) fn check_private(&self, path: &str) -> Result<(), ServerError> {
        if self.tls.is_none() && self.address.is_loopback() == Some(false) {
            return Err(self.exposed(path));
        }
        Ok(())
    }

    fn exposed(&self, path: &str) -> ServerError {
        let (address, purpose) = (self.address.clone(), self.purpose.clone());
        ServerError::Exposed { address, purpose, path: path.to_owned() }
    }

    fn route<F, R>(mut self, path: impl Into<String>, handler: F, access: Access) -> Self
    where
        F: Fn(Request) -> R + Send + Sync + 'static,
        R: Future<Output = Response> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |request| Box::pin(handler(request)));
        self.handlers.push((path.into(), Route { handler, access }));
        self
    }

    /// Maximum connections. Default: 256. A further one waits, and the connection that is idle for longest is closed for it.
    pub fn max_connections(mut self, connections: NonZero<usize>) -> Self {
        self.limits.connections = connections;
        self
    }

    /// Time limit for the headers of the first request, including TLS. Default: 10 s.
    pub fn first_request_timeout(mut self, limit: Duration) -> Self {
        self.limits.first_request = limit;
        self
    }

    /// Time limit for reading a response and sending the next request. Default: 90 s.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.limits.idle = limit;
        self
    }

    /// Time limit for sending a request body; after it, the response is 408. Default: 10 s.
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.limits.request = limit;
        self
    }

    /// Time limit for a handler; after it, the response is 503. Default: 30 s.
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.limits.response = limit;
        self
    }

    /// Maximum request body; larger ones get 413, without being read if the length is known or the limit is 0. Default:
    /// 4 MiB.
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.limits.body = bytes;
        self
    }

    /// Maximum size of all request bodies together, while they are received and handled; beyond it, the response is
    /// 503. Default: 32 MiB.
    pub fn max_bodies(mut self, bytes: usize) -> Self {
        self.limits.bodies = bytes;
        self
    }

    /// Time limit for requests in progress when the server stops; after it, they are cut off. Default: 10 s. Clients
    /// that only read a response or have not sent a complete request get 1 s.
    pub fn stop_timeout(mut self, limit: Duration) -> Self {
        self.limits.stop = limit;
        self
    }

    /// Opens the port, so that clients can connect; [`Bound::serve`] answers them. `None` if the address disables the
    /// server. Connections run as tasks below the spawner's scope.
    ///
    /// # Errors
    /// [`ServerError`] if the port or the certificate cannot be used, or if the options contradict each other.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    pub async fn bind(self, spawner: &Spawner) -> Result<Option<Bound>, ServerError> {
        if self.address.is_off() {
            return Ok(None);
        }
        let private = self.handlers.iter().find(|(_, route)| route.access == Access::Private);
        let exposed = private.filter(|_| self.tls.is_none()).map(|(path, _)| self.exposed(path));
        let Self { purpose, address, handlers, tls, reads, authority, limits } = self;
        if authority.is_some() && tls.is_none() {
            return Err(ServerError::Unprotected { purpose });
        }
        let mut routes = Routes::default();
        for (path, route) in handlers {
            routes.add(&purpose, path, route)?;
        }
        let certificate = match tls {
            Some(tls) => match tls.load(spawner, reads).await {
                Ok(certificate) => Some(certificate),
                Err(source) => return Err(ServerError::Tls { purpose, source }),
            },
            None => None,
        };
        let listened = address.listen().await;
        let (listener, bound) = match listened.and_then(|listener| Ok((listener.local_addr()?, listener))) {
            Ok((bound, listener)) => (listener, bound),
            Err(error) => return Err(ServerError::listen(address, purpose, error)),
        };
        if let Some(exposed) = exposed.filter(|_| !bound.ip().to_canonical().is_loopback()) {
            return Err(exposed);
        }
        tracing::info!(address = %bound, "listening for {purpose}");
        let connection = Arc::new(Connection {
            routes,
            tls: certificate.as_ref().map(ServingCertificate::acceptor),
            guard: authority.map(|authority| TokenAuthorizer::new(authority, spawner.clock().clone())),
            bodies: Semaphore::new(limits.bodies.min(Semaphore::MAX_PERMITS)),
            limits,
            clock: spawner.clock().clone(),
        });
        Ok(Some(Bound {
            purpose,
            listener,
            address: bound,
            certificate,
            connection,
            spawner: spawner.clone(),
        }))
    }
}

/// A [`Server`] with an open port.
#[must_use = "clients wait until it serves"]
pub struct Bound {
    purpose: String,
    listener: TcpListener,
    address: SocketAddr,
    certificate: Option<ServingCertificate>,
    connection: Arc<Connection>,
    spawner: Spawner,
}

impl Bound {
    /// The address of the port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` is cancelled or the server's scope ends. It then closes the port and idle connections, and
    /// waits for requests in progress. Requests that take too long are cut off and counted in the log. Dropping the
    /// future cuts off all connections.
    pub async fn serve(self, stop: CancellationToken) {
        let Self { purpose, listener, address, certificate, connection, spawner } = self;
        let (limits, clock) = (connection.limits, spawner.clock());
        let connections = spawner.scope(&purpose);
        let closed = connections.cancellation();
        let mut renewed = std::pin::pin!(async {
            match certificate {
                Some(certificate) => certificate.renew(&connections.spawner()).await,
                None => std::future::pending().await,
            }
        });
        let acceptor = Acceptor {
            permits: Arc::new(Semaphore::new(limits.connections.get().min(Semaphore::MAX_PERMITS))),
            idle: Arc::default(),
            listener,
            clock: clock.clone(),
        };
        loop {
            let entered = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = closed.cancelled() => break,
                never = renewed.as_mut() => match never {},
                entered = acceptor.enter() => entered,
            };
            let Some((stream, permit)) = entered else { continue };
            let slot = acceptor.idle.enter(clock, limits.first_request);
            let (connection, closed) = (connection.clone(), closed.clone());
            connections.spawn("connection", async move {
                connection.run(stream, slot, closed).await;
                drop(permit);
            });
        }
        drop(acceptor);
        let drained = connections.drain(limits.stop).await;
        if !drained.is_clean() {
            let cut = drained.left().len();
            tracing::warn!(%address, cut, "requests for {purpose} cut off at shutdown");
        }
    }
}

/// Accepts connections.
struct Acceptor {
    listener: TcpListener,
    permits: Arc<Semaphore>,
    idle: Arc<IdleConnections>,
    clock: Clock,
}

impl Acceptor {
    /// Accepts the next connection, with its permit.
    async fn enter(&self) -> Option<(TcpStream, OwnedSemaphorePermit)> {
        let stream = match self.listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) if is_of_one_connection(&error) => return None,
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                let _ = self.clock.timeout(ACCEPT_PAUSE, self.idle.close_oldest(&self.clock)).await;
                self.clock.sleep(ACCEPT_PAUSE).await;
                return None;
            }
        };
        loop {
            tokio::select! {
                biased;
                permit = self.permits.clone().acquire_owned() => return Some((stream, permit.ok()?)),
                () = self.idle.close_oldest(&self.clock) => {}
            }
        }
    }
}

/// Whether an `accept` error concerns only one connection.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// A server that cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address is in use.
    #[error(
        "cannot listen on {address} for {purpose}: address in use: choose another address, or \"0\" for none"
    )]
    Taken {
        /// The address.
        address: BindAddress,
        /// Purpose of the server.
        purpose: String,
    },
    /// The process lacks the permission for this port.
    #[error(
        "cannot listen on {address} for {purpose}: no permission: choose a port above 1023, or \"0\" for none"
    )]
    Forbidden {
        /// The address.
        address: BindAddress,
        /// Purpose of the server.
        purpose: String,
    },
    /// The port cannot be opened for another reason.
    #[error("cannot listen on {address} for {purpose}: choose an address of this machine, or \"0\" for none")]
    Listen {
        /// The address.
        address: BindAddress,
        /// Purpose of the server.
        purpose: String,
        /// The cause.
        source: io::Error,
    },
    /// The certificate cannot be loaded.
    #[error("cannot load the certificate of the server for {purpose}")]
    Tls {
        /// Purpose of the server.
        purpose: String,
        /// The cause.
        source: TlsError,
    },
    /// Tokens would be sent without encryption.
    #[error("{purpose} server requires tokens: configure TLS")]
    Unprotected {
        /// Purpose of the server.
        purpose: String,
    },
    /// A private page would be reachable by others in plain HTTP.
    #[error(
        "the server for {purpose} cannot serve {path} in plain HTTP on {address}, where others can read it: listen on \
         127.0.0.1, or use TLS"
    )]
    Exposed {
        /// The address.
        address: BindAddress,
        /// Purpose of the server.
        purpose: String,
        /// Path of the page.
        path: String,
    },
    /// An invalid path of a handler.
    #[error("the server for {purpose} cannot have a handler for {path:?}: {problem}")]
    Path {
        /// Purpose of the server.
        purpose: String,
        /// The path.
        path: String,
        /// The problem.
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

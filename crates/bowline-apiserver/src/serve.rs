//! The server on a socket: TLS, authentication, connection limits, and shutdown.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bowline_clock::{Scope, Spawner};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;

use crate::authentication::{Authenticator, Token};
use crate::certificates::Certificates;
use crate::connection::{Connection, Limits};
use crate::connections::Connections;
use crate::kubeconfig::Kubeconfig;
use crate::server::ApiServer;

/// Pause when the system has no more sockets.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// Options of a server on a socket.
#[derive(Clone, Copy, Debug)]
#[must_use = "options do nothing until something is served with them"]
pub struct ServeOptions {
    max_connections: NonZeroUsize,
    limits: Limits,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self { max_connections: NonZeroUsize::new(4096).expect("4096 is not 0"), limits: Limits::default() }
    }
}

impl ServeOptions {
    /// Maximum number of connections. Default: 4096. For one more, the longest idle connection is closed, an anonymous
    /// one first; while none is idle, the new one waits. A quarter is reserved for authenticated clients.
    pub fn max_connections(mut self, connections: NonZeroUsize) -> Self {
        self.max_connections = connections;
        self
    }

    /// Maximum time of a new connection until its first request, handshake included. Default: 10 s.
    pub fn first_request_timeout(mut self, limit: Duration) -> Self {
        self.limits.first_request = limit;
        self
    }

    /// Maximum idle time of an HTTP/1.1 connection between two requests, and maximum time for the headers of one.
    /// Default: 90 s. An HTTP/2 connection gets a ping after a third of this.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.limits.idle = limit;
        self
    }

    /// Maximum time that a client may refuse to read, before its connection is closed. Default: 60 s.
    pub fn stalled(mut self, limit: Duration) -> Self {
        self.limits.stalled = limit;
        self
    }
}

/// Reason why a server cannot be served on a socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The listener does not know its address.
    #[error("cannot get the address of the listener: {0}")]
    Address(#[source] io::Error),
    /// Certificates cannot be generated.
    #[error("cannot generate the server's certificates: {0}")]
    Certificates(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A token cannot be generated.
    #[error("cannot generate the server's token: the system provides no randomness")]
    Randomness,
}

/// A server on a socket. Dropping it cuts all connections; [`stop`](ServerHandle::stop) ends them gracefully.
#[must_use = "the server is gone when this is dropped"]
pub struct ServerHandle {
    address: SocketAddr,
    kubeconfig: Kubeconfig,
    /// Scope of one task, which accepts connections. Connections watch its cancellation.
    listening: Scope,
    connections: Scope,
}

impl ApiServer {
    /// Serves on a socket as well: HTTP/1.1 and HTTP/2 over TLS, with its own generated authority, certificates and
    /// token.
    ///
    /// Clients authenticate by the administrator's certificate or token, both in the [`Kubeconfig`]. Anonymous clients
    /// have access to health and version only.
    ///
    /// # Errors
    /// [`ServeError`]
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn serve(&self, listener: TcpListener, options: ServeOptions) -> Result<ServerHandle, ServeError> {
        let address = listener.local_addr().map_err(ServeError::Address)?;
        let clock = &self.inner.clock;
        let certificates = Certificates::make(address.ip(), clock.system_time())
            .map_err(|error| ServeError::Certificates(error.into()))?;
        let token = Token::draw().map_err(|_| ServeError::Randomness)?;
        let kubeconfig = Kubeconfig::new(address, &certificates, token.clone());
        let (listening, connections) = (clock.scope("apiserver"), clock.scope("apiserver-connections"));
        let door = Acceptor {
            permits: Arc::new(Semaphore::new(options.max_connections.get().min(Semaphore::MAX_PERMITS))),
            places: Connections::new(options.max_connections.get()),
            connection: Arc::new(Connection {
                server: self.clone(),
                authenticator: Authenticator::new(token),
                tls: TlsAcceptor::from(certificates.server),
                stop: listening.cancellation(),
                spawner: connections.spawner(),
                limits: options.limits,
            }),
            stop: listening.spawner(),
        };
        listening.spawn("listener", door.open(listener));
        tracing::debug!(%address, "serving");
        Ok(ServerHandle { address, kubeconfig, listening, connections })
    }
}

impl ServerHandle {
    /// Address of the listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address and credentials for a client.
    #[must_use]
    pub fn kubeconfig(&self) -> &Kubeconfig {
        &self.kubeconfig
    }

    /// Number of connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.running()
    }

    /// Stops: refuses connections and requests, ends watches, and waits up to `limit` for requests in progress; the
    /// rest is cut. Returns whether all ended in time.
    pub async fn stop(self, limit: Duration) -> bool {
        let clock = self.listening.spawner().clock().clone();
        let deadline = clock.now() + limit;
        let listener_ended = self.listening.drain(limit).await.is_clean();
        let left = deadline.duration_since(clock.now());
        let connections_ended = clock.timeout(left, self.connections.wait_ended()).await.is_ok();
        self.connections.abort();
        listener_ended && connections_ended
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The listener and its limits.
struct Acceptor {
    permits: Arc<Semaphore>,
    places: Arc<Connections>,
    connection: Arc<Connection>,
    stop: Spawner,
}

impl Acceptor {
    async fn open(self, listener: TcpListener) {
        let stop = self.stop.cancellation();
        loop {
            let entered = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                entered = self.enter(&listener) => entered,
            };
            let Some((stream, permit)) = entered else { continue };
            let (connection, place) = (self.connection.clone(), self.places.enter());
            self.connection.spawner.spawn("connection", async move {
                connection.run(stream, place).await;
                drop(permit);
            });
        }
    }

    /// The next connection, and its permit.
    async fn enter(&self, listener: &TcpListener) -> Option<(TcpStream, OwnedSemaphorePermit)> {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) if is_of_one_connection(&error) => return None,
            Err(error) => {
                tracing::warn!(%error, "cannot accept connection");
                self.places.close_one();
                self.stop.clock().sleep(EXHAUSTED).await;
                return None;
            }
        };
        let mut permit = pin!(self.permits.clone().acquire_owned());
        while self.permits.available_permits() == 0 && !self.places.close_one() {
            tokio::select! {
                biased;
                permit = permit.as_mut() => return Some((stream, permit.ok()?)),
                () = self.places.rested() => {}
            }
        }
        Some((stream, permit.await.ok()?))
    }
}

/// Whether an `accept` error concerns one connection only.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

//! The server on a socket: TLS, who is let in, how many at once, and how it ends.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bowline_clock::{Scope, Spawner};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;

use crate::authentication::{Authenticator, Token};
use crate::certificates::Certificates;
use crate::connection::{Connection, Limits};
use crate::kubeconfig::Kubeconfig;
use crate::server::ApiServer;
use crate::silence::Silent;

/// How long the server waits when the system has no more sockets to give.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// How a server is to be on a socket.
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
    /// How many connections there may be at once: 4096, by default. One more has to wait, and the oldest that has made
    /// no request yet is closed for it.
    pub fn max_connections(mut self, connections: NonZeroUsize) -> Self {
        self.max_connections = connections;
        self
    }

    /// How long a new connection may take until its first request, handshake included: 10 s, by default.
    pub fn first_request(mut self, limit: Duration) -> Self {
        self.limits.first_request = limit;
        self
    }

    /// How long a connection of HTTP/1.1 may be idle between two requests, and take for the headers of one: 90 s, by
    /// default. One of HTTP/2 is asked for a sign of life when it is idle for a third of this.
    pub fn idle(mut self, limit: Duration) -> Self {
        self.limits.idle = limit;
        self
    }

    /// How long a client may refuse to take what is sent to it, before its connection is closed: 60 s, by default.
    pub fn stalled(mut self, limit: Duration) -> Self {
        self.limits.stalled = limit;
        self
    }
}

/// Why a server cannot be on a socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The listener does not know where it listens.
    #[error("the address of the listener cannot be told: {0}")]
    Address(#[source] io::Error),
    /// No certificates.
    #[error("the server's certificates cannot be made: {0}")]
    Certificates(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A server on a socket. When it is dropped, all connections are cut; see [`shutdown`](Serving::shutdown) for a gentler
/// way.
#[must_use = "the server is gone when this is dropped"]
pub struct Serving {
    address: SocketAddr,
    kubeconfig: Kubeconfig,
    /// Has one task, the one that takes connections. Its cancellation is what the connections look at.
    listening: Scope,
    connections: Scope,
}

impl ApiServer {
    /// Serves on a socket as well: HTTP/1.1 and HTTP/2 over TLS, with an authority, certificates and a token made for it.
    ///
    /// Everybody has to say who they are there, by the administrator's certificate or token, both in the
    /// [`Kubeconfig`]; somebody who does not sees health and version only.
    ///
    /// # Errors
    /// [`ServeError`]
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn serve(&self, listener: TcpListener, options: ServeOptions) -> Result<Serving, ServeError> {
        let address = listener.local_addr().map_err(ServeError::Address)?;
        let clock = &self.inner.clock;
        let certificates = Certificates::make(address.ip(), clock.wall())
            .map_err(|error| ServeError::Certificates(error.into()))?;
        let token = Token::draw(clock.rng());
        let kubeconfig = Kubeconfig::new(address, &certificates, token.clone());
        let (listening, connections) = (clock.scope("apiserver"), clock.scope("apiserver-connections"));
        let door = Door {
            permits: Arc::new(Semaphore::new(options.max_connections.get().min(Semaphore::MAX_PERMITS))),
            silent: Arc::default(),
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
        Ok(Serving { address, kubeconfig, listening, connections })
    }
}

impl Serving {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a client needs.
    #[must_use]
    pub fn kubeconfig(&self) -> &Kubeconfig {
        &self.kubeconfig
    }

    /// How many connections there are.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.running()
    }

    /// Stops: takes no more connections and requests, ends watches, and waits for requests that are being answered, but
    /// no longer than `limit`; what is left then is cut. Whether nothing was left.
    pub async fn shutdown(self, limit: Duration) -> bool {
        let clock = self.listening.spawner().clock().clone();
        let deadline = clock.now() + limit;
        let listener_ended = self.listening.drain(limit).await.is_clean();
        let left = deadline.since(clock.now());
        let connections_ended = clock.timeout(left, self.connections.ended()).await.is_ok();
        self.connections.abort();
        listener_ended && connections_ended
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Where connections come in.
struct Door {
    permits: Arc<Semaphore>,
    silent: Arc<Silent>,
    connection: Arc<Connection>,
    stop: Spawner,
}

impl Door {
    async fn open(self, listener: TcpListener) {
        let stop = self.stop.cancellation();
        loop {
            let entered = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                entered = self.enter(&listener) => entered,
            };
            let Some((stream, permit)) = entered else { continue };
            let (connection, place) = (self.connection.clone(), self.silent.enter());
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
                tracing::warn!(%error, "no connection can be taken");
                self.silent.close_oldest();
                self.stop.clock().sleep(EXHAUSTED).await;
                return None;
            }
        };
        if self.permits.available_permits() == 0 {
            self.silent.close_oldest();
        }
        let permit = self.permits.clone().acquire_owned().await.ok()?;
        Some((stream, permit))
    }
}

/// Errors of `accept` that are about the connection that it would have been.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

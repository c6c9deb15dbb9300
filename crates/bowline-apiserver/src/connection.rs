//! One connection: its handshake, its requests, and the times within which its client has to do something.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_clock::{Clock, Sleep, Spawner};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::authentication::Authenticator;
use crate::body::Body;
use crate::coalescing_writer::gather;
use crate::connections::ConnectionSlot;
use crate::hooks::Disconnected;
use crate::poll_on_wake::PollOnWake;
use crate::server::{ApiServer, status_response};

/// The requests that one connection of HTTP/2 may make at once, as kube-apiserver has it.
const MAX_STREAMS: u32 = 250;

/// Flow-control window of one HTTP/2 stream.
const STREAM_WINDOW: u32 = 256 * 1024;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Within which time a client has to do something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) first_request: Duration,
    pub(crate) idle: Duration,
    pub(crate) stalled: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let [first_request, idle, stalled] = [10, 90, 60].map(Duration::from_secs);
        Self { first_request, idle, stalled }
    }
}

/// The shared parts of all connections of one socket.
pub(crate) struct Connection {
    pub(crate) server: ApiServer,
    pub(crate) authenticator: Authenticator,
    pub(crate) tls: TlsAcceptor,
    pub(crate) stop: CancellationToken,
    pub(crate) spawner: Spawner,
    pub(crate) limits: Limits,
}

impl Connection {
    /// Until the client leaves, is silent for too long, or the server stops.
    pub(crate) async fn run(self: Arc<Self>, stream: TcpStream, place: ConnectionSlot) {
        // Answers are written in one piece, and an event should not wait for the next one.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection will be slow");
        }
        let place = Arc::new(place);
        let evicted = PollOnWake::new(self.evicted(&place));
        let ended = tokio::select! {
            biased;
            ended = self.serve(stream, place.clone()) => ended,
            () = evicted => Ok(()),
        };
        if let Err(error) = ended {
            tracing::debug!(error = &*error, "a connection ended early");
        }
    }

    /// Until the connection has to go: for others, or because it made no request in time.
    async fn evicted(&self, place: &ConnectionSlot) {
        tokio::select! {
            biased;
            () = place.closed() => return,
            () = self.spawner.clock().sleep(self.limits.first_request) => {}
        }
        if !place.is_silent() {
            place.closed().await;
        }
    }

    async fn serve(self: &Arc<Self>, stream: TcpStream, place: Arc<ConnectionSlot>) -> Result<(), BoxError> {
        let stream = Impatient::new(stream, self.spawner.clock().clone(), self.limits.stalled);
        let stream = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Ok(()),
            stream = self.tls.accept(stream) => stream?,
        };
        let (_, session) = stream.get_ref();
        let has_certificate =
            session.peer_certificates().is_some_and(|certificates| !certificates.is_empty());
        let is_http2 = session.alpn_protocol() == Some(b"h2");
        let requests = Requests { connection: self.clone(), has_certificate, place };
        if is_http2 { self.http2(stream, requests).await } else { Ok(self.http1(stream, requests).await?) }
    }

    async fn http1(&self, stream: TlsStream<Impatient>, requests: Requests) -> hyper::Result<()> {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(self.limits.idle);
        let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), requests));
        tokio::select! {
            biased;
            ended = served.as_mut() => return ended,
            () = PollOnWake::new(self.stop.cancelled()) => served.as_mut().graceful_shutdown(),
        }
        served.await
    }

    async fn http2(&self, stream: TlsStream<Impatient>, requests: Requests) -> Result<(), BoxError> {
        let (stream, outbox) = gather(stream);
        let mut builder = http2::Builder::new(Streams(self.spawner.clone()));
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(self.limits.idle / 3)
            .keep_alive_timeout(self.limits.idle / 3)
            .max_concurrent_streams(MAX_STREAMS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(STREAM_WINDOW * 16);
        let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), requests));
        tokio::select! {
            biased;
            ended = outbox.drive(served.as_mut()) => return ended,
            () = PollOnWake::new(self.stop.cancelled()) => served.as_mut().graceful_shutdown(),
        }
        outbox.drive(served).await
    }
}

/// Runs the requests of HTTP/2, which are tasks of their own.
#[derive(Clone)]
struct Streams(Spawner);

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn("stream", future);
    }
}

/// Answers the requests of one connection.
struct Requests {
    connection: Arc<Connection>,
    has_certificate: bool,
    place: Arc<ConnectionSlot>,
}

impl hyper::service::Service<Request<Incoming>> for Requests {
    type Response = Response<Body>;
    type Error = Disconnected;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Disconnected>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let Connection { server, authenticator, stop, .. } = &*self.connection;
        let user = match authenticator.user(self.has_certificate, request.headers()) {
            Ok(user) => user.clone(),
            Err(status) => {
                drop(self.place.begin(false));
                return Box::pin(std::future::ready(Ok(status_response(&status))));
            }
        };
        let busy = self.place.begin(user.is_known());
        request.extensions_mut().insert(user);
        let (server, stop) = (server.clone(), stop.clone());
        Box::pin(async move {
            let response = server.handle(request).await?;
            Ok(response.map(|body| body.until(stop.cancelled_owned()).holding(busy)))
        })
    }
}

/// A socket that breaks when its other side takes nothing for too long.
struct Impatient {
    stream: TcpStream,
    clock: Clock,
    limit: Duration,
    since: Option<Sleep>,
}

impl Impatient {
    fn new(stream: TcpStream, clock: Clock, limit: Duration) -> Self {
        Self { stream, clock, limit, since: None }
    }

    fn watch<T>(&mut self, polled: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.since = None;
            return polled;
        }
        let sleep = self.since.get_or_insert_with(|| self.clock.sleep(self.limit));
        Pin::new(sleep).poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(polled, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // Most often it is one record of TLS, and the system has less to do for one slice that is not in a list.
        if let [slice] = slices {
            return self.poll_write(cx, slice);
        }
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.watch(polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

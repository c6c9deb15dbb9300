//! One connection and its requests.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bowline_clock::{Clock, panic_message};
use bytes::{Bytes, BytesMut};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::StatusCode;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::Limits;
use super::connection_slot::ConnectionSlot;
use super::handler::{Access, Handler, Request, Response, Routes, refuse_change, text};
use super::local::is_local;
use super::token_authorizer::TokenAuthorizer;
use crate::BoxError;

/// Maximum size of the headers of a request, and of the read buffer.
const MAX_HEADERS: usize = 64 * 1024;

/// Time to read the rest of a response when the server stops.
const LAST_RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// State that all connections of a server share.
pub(super) struct Connection {
    pub(super) routes: Routes,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) guard: Option<TokenAuthorizer>,
    /// One permit per byte of a body.
    pub(super) bodies: Semaphore,
    pub(super) limits: Limits,
    pub(super) clock: Clock,
}

impl Connection {
    /// Runs until the client disconnects, exceeds a limit, or the server stops.
    pub(super) async fn run(
        self: Arc<Self>,
        stream: TcpStream,
        slot: ConnectionSlot,
        stop: CancellationToken,
    ) {
        let slot = Arc::new(slot);
        let ended = tokio::select! {
            biased;
            ended = self.serve(stream, slot.clone(), stop) => ended,
            () = slot.wait_closed() => Err("idle timeout".into()),
        };
        if let Err(error) = ended {
            tracing::debug!(error = &*error, "connection ended early");
        }
    }

    async fn serve(
        self: Arc<Self>,
        stream: TcpStream,
        slot: Arc<ConnectionSlot>,
        stop: CancellationToken,
    ) -> Result<(), BoxError> {
        stream.set_nodelay(true)?;
        let Some(tls) = self.tls.clone() else { return Ok(self.requests(stream, slot, stop).await?) };
        let stream = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            stream = tls.accept(stream) => stream?,
        };
        Ok(self.requests(stream, slot, stop).await?)
    }

    async fn requests(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        slot: Arc<ConnectionSlot>,
        stop: CancellationToken,
    ) -> hyper::Result<()> {
        let mut builder = http1::Builder::new();
        // The slot enforces the time limits of the client.
        builder.header_read_timeout(None).max_buf_size(MAX_HEADERS);
        let clock = self.clock.clone();
        let exchange = Exchange { connection: self, slot: slot.clone() };
        let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), exchange));
        tokio::select! {
            biased;
            ended = served.as_mut() => return ended,
            () = stop.cancelled() => served.as_mut().graceful_shutdown(),
        }
        if slot.is_idle() {
            // hyper would wait for the rest of an incomplete request.
            return clock.timeout(LAST_RESPONSE_TIMEOUT, served).await.unwrap_or(Ok(()));
        }
        served.await
    }

    async fn answer(&self, request: http::Request<Incoming>, slot: &ConnectionSlot) -> Response {
        let Some(route) = self.routes.find(request.uri().path()) else {
            return text(StatusCode::NOT_FOUND, "404 page not found\n");
        };
        let (mut head, body) = request.into_parts();
        if route.access == Access::Private && self.tls.is_none() && !is_local(&head) {
            return text(StatusCode::FORBIDDEN, "403 use an IP address or localhost in the URL\n");
        }
        let is_read_only = route.access == Access::ReadOnly;
        if let Some(refusal) = refuse_change(&head.method).filter(|_| is_read_only) {
            return refusal;
        }
        let limit = if is_read_only { 0 } else { self.limits.body };
        let shortest = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if shortest > limit || (limit == 0 && !body.is_end_stream()) {
            return too_large();
        }
        if let Some(guard) = &self.guard
            && let Err(refusal) = guard.admit(&mut head).await
        {
            return refusal;
        }
        let (body, _room) = match self.receive(body, limit, slot).await {
            Ok(received) => received,
            Err(refusal) => return refusal,
        };
        let path = head.uri.path().to_owned();
        self.call(&route.handler, &path, Request::from_parts(head, body)).await
    }

    /// Receives a body, with permits for its size. The connection counts as idle meanwhile.
    async fn receive(
        &self,
        mut body: Incoming,
        limit: usize,
        slot: &ConnectionSlot,
    ) -> Result<(Bytes, Option<SemaphorePermit<'_>>), Response> {
        if body.is_end_stream() {
            return Ok((Bytes::new(), None));
        }
        // The duration is limited below.
        slot.set_idle(Duration::MAX);
        let received = async {
            let (mut received, mut room) = (BytesMut::new(), None::<SemaphorePermit<'_>>);
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|_| text(StatusCode::BAD_REQUEST, "400 bad request\n"))?;
                let Ok(data) = frame.into_data() else { continue };
                if data.len() > limit - received.len() {
                    return Err(too_large());
                }
                let more =
                    u32::try_from(data.len()).ok().and_then(|bytes| self.bodies.try_acquire_many(bytes).ok());
                let more =
                    more.ok_or_else(|| text(StatusCode::SERVICE_UNAVAILABLE, "503 no room for the body\n"))?;
                match &mut room {
                    Some(room) => room.merge(more),
                    None => room = Some(more),
                }
                received.extend_from_slice(&data);
            }
            Ok((received.freeze(), room))
        };
        let received = match self.clock.timeout(self.limits.request, received).await {
            Ok(received) => received,
            Err(_) => Err(text(StatusCode::REQUEST_TIMEOUT, "408 request timeout\n")),
        };
        slot.set_busy();
        received
    }

    async fn call(&self, handler: &Handler, path: &str, request: Request) -> Response {
        let limit = self.limits.response;
        let answer = AssertUnwindSafe(async { handler(request).await }).catch_unwind();
        match self.clock.timeout(limit, answer).await {
            Ok(Ok(response)) => response,
            Ok(Err(panic)) => {
                tracing::error!(path, panic = panic_message(&*panic), "handler panicked");
                text(StatusCode::INTERNAL_SERVER_ERROR, "500 internal server error\n")
            }
            Err(_) => {
                tracing::warn!(path, ?limit, "handler timed out");
                text(StatusCode::SERVICE_UNAVAILABLE, "503 handler timed out\n")
            }
        }
    }
}

fn too_large() -> Response {
    text(StatusCode::PAYLOAD_TOO_LARGE, "413 request body too large\n")
}

/// Answers the requests of one connection.
struct Exchange {
    connection: Arc<Connection>,
    slot: Arc<ConnectionSlot>,
}

impl hyper::service::Service<http::Request<Incoming>> for Exchange {
    type Response = http::Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        let (connection, slot) = (self.connection.clone(), self.slot.clone());
        slot.set_busy();
        Box::pin(async move {
            let response = connection.answer(request, &slot).await;
            slot.set_idle(connection.limits.idle);
            Ok(response.map(Full::new))
        })
    }
}

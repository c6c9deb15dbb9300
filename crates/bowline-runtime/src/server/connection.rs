//! One connection, and the requests on it.

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
use super::guard::Guard;
use super::handler::{Handler, Request, Response, Routes, refuse_change, text};
use super::place::Place;
use crate::BoxError;

/// The size of all headers of a request, and of what is read at once.
const HEADERS: usize = 64 * 1024;

/// How long a client may take the rest of an answer when the server stops.
const LAST: Duration = Duration::from_secs(1);

/// What all connections of a server share.
pub(super) struct Connection {
    pub(super) routes: Routes,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) guard: Option<Guard>,
    /// A permit is a byte of a body.
    pub(super) bodies: Semaphore,
    pub(super) limits: Limits,
    pub(super) clock: Clock,
}

impl Connection {
    /// Until the client leaves, takes too long, or the server stops.
    pub(super) async fn run(self: Arc<Self>, stream: TcpStream, place: Place, stop: CancellationToken) {
        let place = Arc::new(place);
        let ended = tokio::select! {
            biased;
            ended = self.serve(stream, place.clone(), stop) => ended,
            () = place.lost() => Err("its client asked nothing for too long".into()),
        };
        if let Err(error) = ended {
            tracing::debug!(error = &*error, "a connection ended early");
        }
    }

    async fn serve(
        self: Arc<Self>,
        stream: TcpStream,
        place: Arc<Place>,
        stop: CancellationToken,
    ) -> Result<(), BoxError> {
        stream.set_nodelay(true)?;
        let Some(tls) = self.tls.clone() else { return Ok(self.requests(stream, place, stop).await?) };
        let stream = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            stream = tls.accept(stream) => stream?,
        };
        Ok(self.requests(stream, place, stop).await?)
    }

    async fn requests(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        place: Arc<Place>,
        stop: CancellationToken,
    ) -> hyper::Result<()> {
        let mut builder = http1::Builder::new();
        // How long a client may take is watched by its place.
        builder.header_read_timeout(None).max_buf_size(HEADERS);
        let clock = self.clock.clone();
        let exchange = Exchange { connection: self, place: place.clone() };
        let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), exchange));
        tokio::select! {
            biased;
            ended = served.as_mut() => return ended,
            () = stop.cancelled() => served.as_mut().graceful_shutdown(),
        }
        if place.is_resting() {
            // Hyper would wait for the rest of a request that has begun.
            return clock.timeout(LAST, served).await.unwrap_or(Ok(()));
        }
        served.await
    }

    async fn answer(&self, request: http::Request<Incoming>, place: &Place) -> Response {
        let Some(route) = self.routes.find(request.uri().path()) else {
            return text(StatusCode::NOT_FOUND, "404 page not found\n");
        };
        let (mut head, body) = request.into_parts();
        if let Some(refusal) = refuse_change(&head.method).filter(|_| route.is_read_only) {
            return refusal;
        }
        let limit = if route.is_read_only { 0 } else { self.limits.body };
        let shortest = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if shortest > limit || (limit == 0 && !body.is_end_stream()) {
            return too_large();
        }
        if let Some(guard) = &self.guard
            && let Err(refusal) = guard.admit(&mut head).await
        {
            return refusal;
        }
        let (body, _room) = match self.receive(body, limit, place).await {
            Ok(received) => received,
            Err(refusal) => return refusal,
        };
        let path = head.uri.path().to_owned();
        self.call(&route.handler, &path, Request::from_parts(head, body)).await
    }

    /// A body, and the room that it takes. As long as it is not there, the connection rests: it costs its client nothing.
    async fn receive(
        &self,
        mut body: Incoming,
        limit: usize,
        place: &Place,
    ) -> Result<(Bytes, Option<SemaphorePermit<'_>>), Response> {
        if body.is_end_stream() {
            return Ok((Bytes::new(), None));
        }
        // How long it may rest so is limited here.
        place.rests(Duration::MAX);
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
        place.works();
        received
    }

    async fn call(&self, handler: &Handler, path: &str, request: Request) -> Response {
        let limit = self.limits.response;
        let answer = AssertUnwindSafe(async { handler(request).await }).catch_unwind();
        match self.clock.timeout(limit, answer).await {
            Ok(Ok(response)) => response,
            Ok(Err(panic)) => {
                tracing::error!(path, panic = panic_message(&*panic), "a handler panicked");
                text(StatusCode::INTERNAL_SERVER_ERROR, "500 internal server error\n")
            }
            Err(_) => {
                tracing::warn!(path, ?limit, "a handler took too long");
                text(StatusCode::SERVICE_UNAVAILABLE, "503 no answer in time\n")
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
    place: Arc<Place>,
}

impl hyper::service::Service<http::Request<Incoming>> for Exchange {
    type Response = http::Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        let (connection, place) = (self.connection.clone(), self.place.clone());
        place.works();
        Box::pin(async move {
            let response = connection.answer(request, &place).await;
            place.rests(connection.limits.idle);
            Ok(response.map(Full::new))
        })
    }
}

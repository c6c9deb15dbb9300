//! One connection, and the requests on it.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bowline_clock::{Clock, panic_message};
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::StatusCode;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::Limits;
use super::guard::Guard;
use super::handler::{Handler, Request, Response, Routes, text};
use super::place::Place;
use crate::BoxError;

/// The size of all headers of a request, and of what is read at once.
const HEADERS: usize = 64 * 1024;

/// What all connections of a server share.
pub(super) struct Connection {
    pub(super) routes: Routes,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) guard: Option<Guard>,
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
        let exchange = Exchange { connection: self, place };
        let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), exchange));
        tokio::select! {
            biased;
            ended = served.as_mut() => return ended,
            () = stop.cancelled() => served.as_mut().graceful_shutdown(),
        }
        served.await
    }

    async fn answer(&self, request: http::Request<Incoming>) -> Response {
        let Some(handler) = self.routes.find(request.uri().path()) else {
            return text(StatusCode::NOT_FOUND, "404 page not found\n");
        };
        let (mut head, body) = request.into_parts();
        if let Some(guard) = &self.guard
            && let Err(refusal) = guard.admit(&mut head).await
        {
            return refusal;
        }
        let body = Limited::new(body, self.limits.body).collect();
        let body = match self.clock.timeout(self.limits.request, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return text(StatusCode::PAYLOAD_TOO_LARGE, "413 request body too large\n");
            }
            Ok(Err(_)) => return text(StatusCode::BAD_REQUEST, "400 bad request\n"),
            Err(_) => return text(StatusCode::REQUEST_TIMEOUT, "408 request timeout\n"),
        };
        let path = head.uri.path().to_owned();
        self.call(handler, &path, Request::from_parts(head, body)).await
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
        let Limits { request: receive, response, idle, .. } = connection.limits;
        place.works(receive + response + idle);
        Box::pin(async move {
            let response = connection.answer(request).await;
            place.rests(idle);
            Ok(response.map(Full::new))
        })
    }
}

//! The connection of one run of an operator to its API server. Owns the user that it acts as, the record of its calls and the
//! cut at the end of the run.

use std::pin::Pin;
use std::task::{Context, Poll};

use bowline_apiserver::{ApiServer, User};
use bowline_runtime::transport::TransportError;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kube::Client;
use kube::client::Body;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tower_service::Service;

use super::calls::CallLog;
use super::plane::ConfiguredServer;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// The run has ended, and with it all its requests.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("this run of the operator has ended; nothing more is sent for it")]
struct ConnectionCut;

/// The server and the user that the operator acts as.
pub(super) enum OperatorServer {
    /// In this process.
    Embedded(ApiServer, User),
    /// The one of a configuration.
    Configured(Box<ConfiguredServer>),
}

/// The way to the server for one run.
#[derive(Clone)]
enum Route {
    Embedded(ApiServer, User),
    Client(Client),
}

/// Sends requests of one run, records them, and fails all of them when the run has ended, answers that are being read too.
#[derive(Clone)]
struct Connection {
    route: Route,
    calls: CallLog,
    cut: CancellationToken,
}

impl OperatorServer {
    /// A fresh client for one run, on the current runtime. When the token is cancelled, all its requests fail.
    pub(super) fn client(
        &self,
        namespace: &str,
        calls: CallLog,
        cut: CancellationToken,
    ) -> Result<Client, TransportError> {
        let route = match self {
            Self::Embedded(server, user) => Route::Embedded(server.clone(), user.clone()),
            Self::Configured(server) => Route::Client(server.client(namespace)?),
        };
        Ok(Client::new(Connection { route, calls, cut }, namespace))
    }
}

impl Route {
    async fn send(self, mut request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        match self {
            Self::Embedded(server, user) => {
                request.extensions_mut().insert(user);
                Ok(server.handle(request).await?.map(|body| body.map_err(Into::into).boxed_unsync()))
            }
            Self::Client(client) => {
                Ok(client.send(request).await?.map(|body| body.map_err(Into::into).boxed_unsync()))
            }
        }
    }
}

impl Service<Request<Body>> for Connection {
    type Response = Response<CutBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<CutBody>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { route, calls, cut } = self.clone();
        Box::pin(async move {
            if cut.is_cancelled() {
                return Err(ConnectionCut.into());
            }
            calls.record(request.method(), request.uri());
            tokio::select! {
                biased;
                () = cut.cancelled() => Err(ConnectionCut.into()),
                answer = route.send(request) => {
                    Ok(answer?.map(|inner| CutBody { inner, cut: Box::pin(cut.clone().cancelled_owned()) }))
                }
            }
        })
    }
}

/// An answer that ends with an error when the run ends.
struct CutBody {
    inner: AnswerBody,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl http_body::Body for CutBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(ConnectionCut.into())));
        }
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

//! The server that answers scrapes.

use std::fmt;

use bowline_clock::Spawner;
use http::header::{CONTENT_TYPE, HeaderValue};

use super::negotiation::Form;
use super::{BindAddress, Bound, Request, Response, Server, ServerError, Tls};
use crate::Metrics;

/// Where metrics are.
const PATH: &str = "/metrics";

/// Answers scrapes at `/metrics`: in Prometheus's text form, or in that of `OpenMetrics` for whoever likes that better.
///
/// The default is port 8080 on all addresses, in plain HTTP. There is nothing to send: a request with a body is answered
/// with 413 before that is read. Where other handlers need bodies, [`options`](Self::options) gives them a
/// [`max_body`](Server::max_body); `/metrics` has none even then.
#[must_use = "a server does nothing until it is bound"]
pub struct MetricsServer {
    server: Server,
}

impl MetricsServer {
    /// At an address.
    pub fn at(address: BindAddress) -> Self {
        Self { server: Server::new("metrics", address).max_body(0) }
    }

    /// What else is answered, see [`Server::handler`]: a page for people, a profile. `/metrics` is taken.
    pub fn handler<F, R>(self, path: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Request) -> R + Send + Sync + 'static,
        R: Future<Output = Response> + Send + 'static,
    {
        self.options(|server| server.handler(path, handler))
    }

    /// Answers over TLS, see [`Server::tls`].
    pub fn tls(self, tls: Tls) -> Self {
        self.options(|server| server.tls(tls))
    }

    /// Answers only whom the API server lets, see [`Server::authenticated`]: `get` on `/metrics`, and on the paths of other
    /// handlers.
    pub fn authenticated(self, client: kube::Client) -> Self {
        self.options(|server| server.authenticated(client))
    }

    /// Options of the server: limits and timeouts.
    pub fn options(mut self, options: impl FnOnce(Server) -> Server) -> Self {
        self.server = options(self.server);
        self
    }

    /// Takes the address, see [`Server::bind`].
    ///
    /// # Errors
    /// [`ServerError`]
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn bind(self, metrics: &Metrics, spawner: &Spawner) -> Result<Option<Bound>, ServerError> {
        let server = self.server.metrics(metrics);
        let metrics = metrics.clone();
        let scrape = move |request: Request| std::future::ready(answer(&metrics, &request));
        server.read_only(PATH, scrape).bind(spawner).await
    }
}

impl Default for MetricsServer {
    fn default() -> Self {
        Self::at(BindAddress::all(8080))
    }
}

fn answer(metrics: &Metrics, request: &Request) -> Response {
    let form = Form::liked(request.headers());
    let text = match form {
        Form::Text => metrics.encode_text(),
        Form::OpenMetrics => metrics.encode(),
    };
    let mut response = Response::new(text.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(form.content_type()));
    response
}

impl fmt::Debug for MetricsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MetricsServer").field(&self.server).finish()
    }
}

//! The metrics server.

use std::fmt;

use bowline_clock::Spawner;
use http::header::{CONTENT_TYPE, HeaderValue};

use super::negotiation::Form;
use super::{BindAddress, Bound, Request, Response, Server, ServerError, Tls};
use crate::Metrics;

/// Path of the metrics.
const PATH: &str = "/metrics";

/// Serves metrics at `/metrics`, in Prometheus' text format or as `OpenMetrics`, depending on the `Accept` header.
///
/// Default: port 8080 on all addresses, in plain HTTP. A request with a body gets 413 before it is read. For other
/// handlers that need bodies, set [`max_body`](Server::max_body) through [`options`](Self::options); `/metrics` accepts
/// none even then.
#[must_use = "a server does nothing until it is bound"]
pub struct MetricsServer {
    server: Server,
}

impl MetricsServer {
    /// Creates a metrics server at an address.
    pub fn new(address: BindAddress) -> Self {
        Self { server: Server::new("metrics", address).max_body(0) }
    }

    /// Adds a handler, see [`Server::handler`]: a page for people, a profile. `/metrics` is taken.
    pub fn handler<F, R>(self, path: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Request) -> R + Send + Sync + 'static,
        R: Future<Output = Response> + Send + 'static,
    {
        self.options(|server| server.handler(path, handler))
    }

    /// Serves over TLS, see [`Server::tls`].
    pub fn tls(self, tls: Tls) -> Self {
        self.options(|server| server.tls(tls))
    }

    /// Requires authentication, see [`Server::authenticated`]: `get` on `/metrics` and on the paths of other handlers.
    pub fn authenticated(self, client: kube::Client) -> Self {
        self.options(|server| server.authenticated(client))
    }

    /// Adds a page that needs TLS or a loopback address, see [`Server::private`].
    pub(crate) fn private<F, R>(self, path: &str, handler: F) -> Self
    where
        F: Fn(Request) -> R + Send + Sync + 'static,
        R: Future<Output = Response> + Send + 'static,
    {
        self.options(|server| server.private(path, handler))
    }

    /// See [`Server::check_private`].
    pub(crate) fn check_private(&self, path: &str) -> Result<(), ServerError> {
        self.server.check_private(path)
    }

    /// Changes options of the server: limits and timeouts.
    pub fn options(mut self, options: impl FnOnce(Server) -> Server) -> Self {
        self.server = options(self.server);
        self
    }

    /// Opens the port, see [`Server::bind`].
    ///
    /// # Errors
    /// As for [`Server::bind`].
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    pub async fn bind(self, spawner: &Spawner, metrics: &Metrics) -> Result<Option<Bound>, ServerError> {
        let server = self.server.metrics(metrics);
        let metrics = metrics.clone();
        let scrape = move |request: Request| std::future::ready(answer(&metrics, &request));
        server.read_only(PATH, scrape).bind(spawner).await
    }
}

impl Default for MetricsServer {
    fn default() -> Self {
        Self::new(BindAddress::all(8080))
    }
}

fn answer(metrics: &Metrics, request: &Request) -> Response {
    let form = Form::preferred(request.headers());
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

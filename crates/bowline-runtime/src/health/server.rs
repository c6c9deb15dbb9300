//! The server that answers probes.

use std::fmt;

use bowline_clock::{Clock, Spawner};
use percent_encoding::percent_decode_str;

use super::check::Checks;
use super::report;
use crate::server::{BindAddress, Bound, Request, Response, Server, ServerError};

/// Answers probes: liveness at `/healthz`, readiness at `/readyz`, and each of their checks below these by its name.
///
/// As with Kubernetes' own servers, the answer is 200 with `ok` or 500 with a list of checks; `?verbose` always gives the
/// list, `?exclude=name` leaves a check out. The default is port 8081 on all addresses. It is plain HTTP without
/// credentials, as kubelets have none: reasons are logged and not shown, unless a check wants that
/// ([`Reason::shown`](super::Reason::shown)) or is asked for alone. There is nothing to send: a request with a body is answered
/// with 413 before that is read.
#[must_use = "a server does nothing until it is bound"]
pub struct HealthServer {
    server: Server,
    liveness: String,
    readiness: String,
}

impl HealthServer {
    /// At an address.
    pub fn at(address: BindAddress) -> Self {
        let server = Server::new("health probes", address).max_body(0);
        Self { server, liveness: "/healthz".to_owned(), readiness: "/readyz".to_owned() }
    }

    /// Where liveness is: `/healthz`, by default.
    pub fn liveness_path(mut self, path: impl Into<String>) -> Self {
        self.liveness = path.into();
        self
    }

    /// Where readiness is: `/readyz`, by default.
    pub fn readiness_path(mut self, path: impl Into<String>) -> Self {
        self.readiness = path.into();
        self
    }

    /// Options of the server: limits, timeouts, other handlers.
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
    pub async fn bind(
        self,
        alive: &Checks,
        ready: &Checks,
        spawner: &Spawner,
    ) -> Result<Option<Bound>, ServerError> {
        let mut server = self.server;
        for (path, checks) in [(self.liveness, alive), (self.readiness, ready)] {
            let (checks, clock) = (checks.clone(), spawner.clock().clone());
            let path = path.trim_end_matches('/').to_owned();
            let below = format!("{path}/");
            let answer = {
                let below = below.clone();
                move |request| answer(checks.clone(), clock.clone(), below.clone(), request)
            };
            server = server.read_only(path, answer.clone()).read_only(below, answer);
        }
        server.bind(spawner).await
    }
}

async fn answer(checks: Checks, clock: Clock, below: String, request: Request) -> Response {
    let name = request.uri().path().strip_prefix(&below).unwrap_or_default().trim_matches('/');
    if name.is_empty() {
        return report::all(&checks, &clock, request.uri().query().unwrap_or_default()).await;
    }
    let name = percent_decode_str(name).decode_utf8_lossy();
    report::one(&checks, &clock, &name).await
}

impl Default for HealthServer {
    fn default() -> Self {
        Self::at(BindAddress::all(8081))
    }
}

impl fmt::Debug for HealthServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthServer")
            .field("server", &self.server)
            .field("liveness", &self.liveness)
            .field("readiness", &self.readiness)
            .finish()
    }
}

//! The health server.

use std::fmt;

use bowline_clock::{Clock, Spawner};
use percent_encoding::percent_decode_str;

use super::check::HealthChecks;
use super::report;
use crate::server::{BindAddress, Bound, Request, Response, Server, ServerError};

/// Serves health checks: liveness at `/healthz`, readiness at `/readyz`, and each single check at its name below these
/// paths.
///
/// As in Kubernetes' own servers, the response is 200 with `ok`, or 500 with a list of checks. `?verbose` always
/// returns the list, `?exclude=name` skips a check. Default: port 8081 on all addresses. It is plain HTTP without
/// authentication, since kubelets have no credentials. Therefore the reasons of failures are logged but not returned,
/// except those of [`CheckFailure::public`](super::CheckFailure::public). Requests with a body get 413, before the body
/// is read.
#[must_use = "a server does nothing until it is bound"]
pub struct HealthServer {
    server: Server,
    liveness: String,
    readiness: String,
}

impl HealthServer {
    /// A server at an address.
    pub fn new(address: BindAddress) -> Self {
        let server = Server::new("health probes", address).max_body(0);
        Self { server, liveness: "/healthz".to_owned(), readiness: "/readyz".to_owned() }
    }

    /// The path of liveness. Default: `/healthz`.
    pub fn liveness_path(mut self, path: impl Into<String>) -> Self {
        self.liveness = path.into();
        self
    }

    /// The path of readiness. Default: `/readyz`.
    pub fn readiness_path(mut self, path: impl Into<String>) -> Self {
        self.readiness = path.into();
        self
    }

    /// Options of the HTTP server: limits, timeouts, other handlers.
    pub fn options(mut self, options: impl FnOnce(Server) -> Server) -> Self {
        self.server = options(self.server);
        self
    }

    /// Binds the address, see [`Server::bind`].
    ///
    /// # Errors
    /// [`ServerError`]
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn bind(
        self,
        spawner: &Spawner,
        alive: &HealthChecks,
        ready: &HealthChecks,
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

async fn answer(checks: HealthChecks, clock: Clock, below: String, request: Request) -> Response {
    let name = request.uri().path().strip_prefix(&below).unwrap_or_default().trim_matches('/');
    if name.is_empty() {
        let probe = below.trim_matches('/');
        return report::all(probe, &checks, &clock, request.uri().query().unwrap_or_default()).await;
    }
    let name = percent_decode_str(name).decode_utf8_lossy();
    report::one(&checks, &clock, &name).await
}

impl Default for HealthServer {
    fn default() -> Self {
        Self::new(BindAddress::all(8081))
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

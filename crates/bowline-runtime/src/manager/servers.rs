//! The servers that tell how a manager is, and what they tell.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bowline_clock::Spawner;

use super::lifecycle::Inner;
use super::runnable::{Runnable, Stage};
use crate::Metrics;
use crate::controller::{Controller, WaitingFor};
use crate::debug::DebugPage;
use crate::health::{Checks, HealthServer, Reason};
use crate::leader_election::Elector;
use crate::server::{Bound, MetricsServer, ServerError};

/// So long after the end of its lease a process that believes to have it should have ended by itself.
const EXPIRED: Duration = Duration::from_secs(20);

/// The servers of a manager, to be started, and their addresses then.
#[derive(Default)]
pub(super) struct Servers {
    metrics: OnceLock<SocketAddr>,
    health: OnceLock<SocketAddr>,
    pub(super) liveness: Checks,
    pub(super) readiness: Checks,
}

/// What is to be served.
#[derive(Default)]
pub(super) struct Served {
    pub(super) metrics: Option<MetricsServer>,
    pub(super) health: Option<HealthServer>,
    /// Whether the metrics server has the debug page.
    pub(super) debug: bool,
}

/// Where the debug page is.
const DEBUG: &str = "/debug";

impl Servers {
    /// As long as the manager has not come as far as to start what it runs, the process is not ready. One that holds a lease
    /// which it neither renews nor gives up is beyond help.
    pub(super) fn new(manager: Weak<Inner>, elector: Option<&Arc<Elector>>) -> Self {
        let servers = Self::default();
        servers.readiness.add("manager", move || std::future::ready(manager_check(manager.upgrade())));
        if let Some(elector) = elector.cloned() {
            let check = move || elector.check(EXPIRED).map_err(|error| Reason::shown(error.to_string()));
            servers.liveness.add("leader-election", move || std::future::ready(check()));
        }
        servers
    }

    pub(super) fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.get().copied()
    }

    pub(super) fn health_address(&self) -> Option<SocketAddr> {
        self.health.get().copied()
    }

    /// Takes the addresses; gives what serves on them.
    pub(super) async fn bind(
        &self,
        served: Served,
        page: DebugPage,
        metrics: &Metrics,
        spawner: &Spawner,
    ) -> Result<Vec<Runnable>, ServerError> {
        let mut runnables = Vec::new();
        let with_page = |server: MetricsServer| {
            if !served.debug {
                return server;
            }
            server.handler(DEBUG, move |request| {
                let answer = page.respond(&request.into_parts().0);
                std::future::ready(answer.map(Into::into))
            })
        };
        if let Some(server) = served.metrics.map(with_page)
            && let Some(bound) = server.bind(metrics, spawner).await?
        {
            let _is_first = self.metrics.set(bound.address());
            runnables.push(serving("metrics server", bound));
        }
        if let Some(server) = served.health
            && let Some(bound) = server.bind(&self.liveness, &self.readiness, spawner).await?
        {
            let _is_first = self.health.set(bound.address());
            runnables.push(serving("health server", bound));
        }
        Ok(runnables)
    }

    /// Nothing is checked any more.
    pub(super) fn forget(&self) {
        for checks in [&self.liveness, &self.readiness] {
            checks.names().iter().for_each(|name| checks.remove(name));
        }
    }

    /// From now on, what this controller waits for keeps the process from being ready.
    pub(super) fn check_controller(&self, cluster: Option<&str>, controller: &Controller) {
        let name = match cluster {
            None => format!("controller-{}", controller.name()),
            Some(cluster) => format!("controller-{cluster}-{}", controller.name()),
        };
        let controller = controller.clone();
        self.readiness.add(name, move || std::future::ready(controller_check(&controller)));
    }
}

fn serving(name: &str, bound: Bound) -> Runnable {
    let serve = |stop| async move {
        bound.serve(stop).await;
        Ok::<_, std::convert::Infallible>(())
    };
    Runnable::new(name, serve).in_stage(Stage::Server)
}

fn controller_check(controller: &Controller) -> Result<(), Reason> {
    // Anybody may probe: what the server says is for the log and the debug page.
    let waiting: Vec<_> = controller.waiting_for().iter().map(WaitingFor::brief).collect();
    if waiting.is_empty() {
        return Ok(());
    }
    Err(Reason::shown(format!("the controller {:?} waits for {}", controller.name(), waiting.join("; "))))
}

fn manager_check(manager: Option<Arc<Inner>>) -> Result<(), Reason> {
    match manager {
        Some(manager) => manager.check().map_err(Reason::shown),
        None => Err(Reason::shown("the manager is gone")),
    }
}

//! The servers of a manager for metrics, health checks and the debug page.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bowline_clock::Spawner;

use super::lifecycle::Inner;
use super::runnable::{Runnable, Stage};
use crate::controller::{Controller, UnsyncedSource};
use crate::debug::DebugPage;
use crate::health::{CheckFailure, HealthChecks, HealthServer};
use crate::leader_election::LeaderElector;
use crate::server::{Bound, MetricsServer, ServerError};
use crate::{Cluster, ClusterName, Metrics};

/// Time after the end of its lease at which a process that still holds it fails liveness.
const EXPIRED: Duration = Duration::from_secs(20);

/// Maximum number of unhandled changes that a controller's readiness check names.
const NAMED: usize = 5;

/// The servers of a manager, and their addresses while they run.
#[derive(Default)]
pub(super) struct Servers {
    metrics: OnceLock<SocketAddr>,
    health: OnceLock<SocketAddr>,
    pub(super) liveness: HealthChecks,
    pub(super) readiness: HealthChecks,
}

/// The servers to start.
#[derive(Default)]
pub(super) struct Served {
    pub(super) metrics: Option<MetricsServer>,
    pub(super) health: Option<HealthServer>,
    /// Whether the metrics server has the debug page.
    pub(super) debug: bool,
}

/// The path of the debug page.
pub(super) const DEBUG: &str = "/debug";

impl Servers {
    /// The process is not ready until the manager starts its controllers. It is not alive if it holds a lease that it
    /// neither renews nor releases.
    pub(super) fn new(manager: &Weak<Inner>, elector: Option<&Arc<LeaderElector>>) -> Self {
        let servers = Self::default();
        let of = |check: fn(&Inner) -> Result<(), String>| {
            let manager = manager.clone();
            move || std::future::ready(manager_check(manager.upgrade(), check))
        };
        servers.readiness.add("manager", of(Inner::check));
        // Not in the summary, which contains its parts: one check for each controller.
        servers.readiness.add_counted("sync", || false, of(Inner::check_sync));
        if let Some(elector) = elector.cloned() {
            let check =
                move || elector.check(EXPIRED).map_err(|error| CheckFailure::public(error.to_string()));
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

    /// Binds the addresses; returns the futures that serve.
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
            server.private(DEBUG, move |request| {
                let answer = page.respond(&request.into_parts().0);
                std::future::ready(answer.map(Into::into))
            })
        };
        if let Some(server) = served.metrics.map(with_page)
            && let Some(bound) = server.bind(spawner, metrics).await?
        {
            let _is_first = self.metrics.set(bound.address());
            runnables.push(serving("metrics server", bound));
        }
        if let Some(server) = served.health
            && let Some(bound) = server.bind(spawner, &self.liveness, &self.readiness).await?
        {
            let _is_first = self.health.set(bound.address());
            runnables.push(serving("health server", bound));
        }
        Ok(runnables)
    }

    /// Removes all checks.
    pub(super) fn forget(&self) {
        for checks in [&self.liveness, &self.readiness] {
            checks.names().iter().for_each(|name| checks.remove(name));
        }
    }

    /// Adds the readiness check of a controller. The summary includes it only without webhooks: lists may need
    /// webhooks, which are called only when the process is ready.
    pub(super) fn check_controller(
        &self,
        manager: Weak<Inner>,
        own: &Cluster,
        cluster: Option<&str>,
        controller: &Controller,
    ) {
        let name = match cluster {
            None => format!("controller-{}", controller.name()),
            Some(cluster) => format!("controller-{cluster}-{}", controller.name()),
        };
        let (controller, own) = (controller.clone(), own.name().cloned());
        let handling = controller.clone();
        self.readiness.add(format!("{name}-changes"), move || std::future::ready(changes_check(&handling)));
        let is_counted = move || manager.upgrade().is_none_or(|manager| !manager.has_webhooks());
        let check = move || std::future::ready(controller_check(&controller, own.as_ref()));
        self.readiness.add_counted(name, is_counted, check);
    }
}

fn serving(name: &str, bound: Bound) -> Runnable {
    let serve = |stop| async move {
        bound.serve(stop).await;
        Ok::<_, std::convert::Infallible>(())
    };
    Runnable::new(name, serve).in_stage(Stage::Server)
}

fn controller_check(controller: &Controller, own: Option<&ClusterName>) -> Result<(), CheckFailure> {
    let mut waiting = controller.waiting_for();
    if !controller.is_required() {
        // An optional source may never sync, which must not keep the process from being ready.
        let is_optional = |waiting: &UnsyncedSource| {
            waiting.is_missing() || (waiting.is_unreachable() && waiting.cluster() != own)
        };
        waiting.retain(|waiting| !is_optional(waiting));
    }
    // Probes are not authenticated: the server's messages are only in the log and on the debug page.
    let waiting: Vec<_> = waiting.iter().map(UnsyncedSource::brief).collect();
    if !waiting.is_empty() {
        return Err(CheckFailure::public(format!(
            "the controller {:?} waits for {}",
            controller.name(),
            waiting.join("; ")
        )));
    }
    Ok(())
}

fn changes_check(controller: &Controller) -> Result<(), CheckFailure> {
    let unhandled = controller.unhandled_changes();
    if unhandled.is_empty() {
        return Ok(());
    }
    let named: Vec<_> = unhandled.iter().take(NAMED).map(ToString::to_string).collect();
    let more = unhandled.len() - named.len();
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let (name, named) = (controller.name(), named.join("; "));
    Err(CheckFailure::public(format!("the controller {name:?} cannot handle changes of {named}{more}")))
}

fn manager_check(
    manager: Option<Arc<Inner>>,
    check: fn(&Inner) -> Result<(), String>,
) -> Result<(), CheckFailure> {
    match manager {
        Some(manager) => check(&manager).map_err(CheckFailure::public),
        None => Err(CheckFailure::public("the manager is gone")),
    }
}

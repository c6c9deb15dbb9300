//! Options of a manager.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use bowline_clock::Spawner;

use super::Manager;
use super::connection::Connection;
use super::error::ManagerError;
use super::lifecycle::{Inner, Kept, Parts};
use super::servers::Served;
use crate::health::HealthServer;
use crate::leader_election::{Called, Elector, LeaderElection, Told};
use crate::server::MetricsServer;
use crate::{Cluster, ClusterBuilder, Metrics, Signals};

/// How long a manager takes to stop, at most.
const GRACEFUL_SHUTDOWN: Duration = Duration::from_secs(30);

/// Options of a [`Manager`].
#[must_use = "a builder does nothing until `build`"]
pub struct ManagerBuilder {
    spawner: Spawner,
    connection: Connection,
    cluster: Box<dyn FnOnce(ClusterBuilder) -> ClusterBuilder + Send>,
    metrics: Metrics,
    election: Option<LeaderElection>,
    on_new_leader: Option<Told>,
    on_started_leading: Option<Called>,
    on_stopped_leading: Option<Called>,
    graceful_shutdown: Duration,
    concurrency: Option<NonZeroUsize>,
    webhook: WebhookOptions,
    signals: Option<Signals>,
    served: Served,
    span: tracing::Span,
    kept: Vec<Kept>,
}

/// Where a webhook server is to listen, and with which certificate. The manager keeps this for whoever adds such a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebhookOptions {
    /// The address to listen on; all of the machine's by default, which is none here.
    pub host: Option<String>,
    /// The port; 9443 by default.
    pub port: u16,
    /// The folder of `tls.crt` and `tls.key`; by default `k8s-webhook-server/serving-certs` in the system's folder for
    /// temporary files.
    pub certificates: PathBuf,
}

impl Default for WebhookOptions {
    fn default() -> Self {
        let certificates = std::env::temp_dir().join("k8s-webhook-server").join("serving-certs");
        Self { host: None, port: 9443, certificates }
    }
}

impl WebhookOptions {
    /// Listens on one address only.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Listens on another port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Has its certificate in another folder.
    #[must_use]
    pub fn certificates(mut self, folder: impl Into<PathBuf>) -> Self {
        self.certificates = folder.into();
        self
    }
}

impl ManagerBuilder {
    pub(super) fn new(spawner: &Spawner, connection: Connection) -> Self {
        Self {
            spawner: spawner.clone(),
            connection,
            cluster: Box::new(|cluster| cluster),
            metrics: Metrics::default(),
            election: None,
            on_new_leader: None,
            on_started_leading: None,
            on_stopped_leading: None,
            graceful_shutdown: GRACEFUL_SHUTDOWN,
            concurrency: None,
            webhook: WebhookOptions::default(),
            signals: None,
            served: Served::default(),
            span: tracing::Span::none(),
            kept: Vec::new(),
        }
    }

    /// Options of the manager's own cluster: scheme, mapper, what is cached and how, the client's options, where events go.
    /// Default: those of a [`Cluster`].
    pub fn cluster(
        mut self,
        options: impl FnOnce(ClusterBuilder) -> ClusterBuilder + Send + 'static,
    ) -> Self {
        let before = self.cluster;
        self.cluster = Box::new(|cluster| options(before(cluster)));
        self
    }

    /// Where everything is counted. Default: a registry of its own.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Serves metrics, and what else is added to that server. Default: it does not.
    pub fn metrics_server(mut self, server: MetricsServer) -> Self {
        self.served.metrics = Some(server);
        self
    }

    /// Whether the metrics server has a page for people at `/debug`: what controllers, informers and workers are at, and the
    /// last reconciles with their triggers and errors; see [`debug`](crate::debug). Default: it has not. Whoever may scrape
    /// metrics may see it: names of objects, and errors about them, but nothing that is in them.
    pub fn debug(mut self, show: bool) -> Self {
        self.served.debug = show;
        self
    }

    /// Answers probes of liveness and readiness. Default: it does not.
    pub fn health_server(mut self, server: HealthServer) -> Self {
        self.served.health = Some(server);
        self
    }

    /// Of several replicas, one acts. Default: there is no election, and every process does everything.
    pub fn leader_election(mut self, election: LeaderElection) -> Self {
        self.election = Some(election);
        self
    }

    /// Calls a function with the identity of each new leader, this replica included. Default: nobody is told.
    pub fn on_new_leader(mut self, hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_new_leader = Some(Box::new(hook));
        self
    }

    /// Calls a function when this replica begins to lead; see [`Elector::on_started_leading`]. Default: nobody is told.
    pub fn on_started_leading(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_started_leading = Some(Box::new(hook));
        self
    }

    /// Calls a function when this replica leads no more, before it stops what needs leadership if the lease was lost; see
    /// [`Elector::on_stopped_leading`]. Default: nobody is told.
    pub fn on_stopped_leading(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_stopped_leading = Some(Box::new(hook));
        self
    }

    /// How long a stop may take. Default: 30 seconds. The last 5 of them, or a quarter if that is less, are for what comes
    /// last: the lease is given up, and events that wait are written. What has not ended before is aborted and named, and
    /// stages whose turn comes then have half a second each, so that it may take some seconds more where several do not
    /// end: give the pod a `terminationGracePeriodSeconds` that is longer. Zero aborts everything at once, and that is no
    /// error; [`Duration::MAX`] waits for ever.
    pub fn graceful_shutdown(mut self, limit: Duration) -> Self {
        self.graceful_shutdown = limit;
        self
    }

    /// How many objects each controller that is made by [`Manager::controller`] reconciles at the same time, unless it says so
    /// itself. Default: 1.
    pub fn concurrency(mut self, workers: NonZeroUsize) -> Self {
        self.concurrency = Some(workers);
        self
    }

    /// Where a webhook server is to listen. Default: port 9443 of all addresses.
    pub fn webhook(mut self, options: WebhookOptions) -> Self {
        self.webhook = options;
        self
    }

    /// What is logged by runnables is inside of this span, for what is true of all of it; see
    /// [`ClusterBuilder::span`]. Default: no span.
    pub fn span(mut self, span: tracing::Span) -> Self {
        self.span = span;
        self
    }

    /// A signal stops the manager gracefully, or keeps it from starting; a second one ends the process at once, with status
    /// 1, also after the manager has ended, as long as the scope lives that it was given. Default: signals are somebody
    /// else's business.
    pub fn signals(mut self, signals: Signals) -> Self {
        self.signals = Some(signals);
        self
    }

    /// Keeps something until the manager and all its clones are gone: the scope that its spawner is of, or what ends the logs of
    /// a program. Default: nothing.
    pub fn keep(mut self, value: impl Send + Sync + 'static) -> Self {
        self.kept.push(Box::new(value));
        self
    }

    /// Makes the manager. Nothing is asked of the API server before it is [started](Manager::start).
    ///
    /// # Errors
    /// When the options make no sense, or the configuration names no server that can be talked to.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn build(self) -> Result<Manager, ManagerError> {
        let clock = self.spawner.clock().clone();
        let ways = self.connection.make(&clock, &self.metrics)?;
        let scope = self.spawner.scope("manager");
        let mut cluster = Cluster::builder(&scope.spawner(), ways.route.clone()).span(self.span);
        let mut elector = None;
        if let Some(election) = self.election {
            let mut candidate: Elector = election.build(ways.lease.clone(), &clock)?;
            candidate = candidate.metrics(&self.metrics);
            if let Some(hook) = self.on_new_leader {
                candidate = candidate.on_new_leader(hook);
            }
            if let Some(hook) = self.on_started_leading {
                candidate = candidate.on_started_leading(hook);
            }
            if let Some(hook) = self.on_stopped_leading {
                candidate = candidate.on_stopped_leading(hook);
            }
            cluster = cluster.fenced(ways.fenced(candidate.fence()));
            elector = Some(candidate);
        }
        if self.served.debug && self.served.metrics.is_none() {
            tracing::warn!("there is no debug page, because there is no metrics server that could show it");
        }
        // After the options: all that is counted goes to one place.
        let cluster = (self.cluster)(cluster).metrics(self.metrics).build()?;
        Ok(Manager {
            inner: Inner::new(Parts {
                spawner: self.spawner,
                scope,
                cluster,
                elector,
                graceful_shutdown: self.graceful_shutdown,
                concurrency: self.concurrency,
                webhook: self.webhook,
                signals: self.signals,
                served: self.served,
                kept: self.kept,
            }),
        })
    }
}

impl fmt::Debug for ManagerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerBuilder")
            .field("connection", &self.connection)
            .field("election", &self.election)
            .finish_non_exhaustive()
    }
}

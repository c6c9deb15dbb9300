//! Options of a manager.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bowline_clock::Spawner;
use futures::FutureExt as _;

use super::Manager;
use super::connection::ConnectionConfig;
use super::definitions::Definitions;
use super::error::ManagerError;
use super::lifecycle::{DEFAULT_CLUSTER_NAME, Inner, Instead, Kept, Parts, StoppedHook};
use super::runnable::Runnable;
use super::servers::{DEBUG, Served};
use crate::health::HealthServer;
use crate::leader_election::{LeaderElectionConfig, LeaderElector, LeadershipHook, NewLeaderHook};
use crate::server::MetricsServer;
use crate::{Cluster, ClusterBuilder, Error, Metrics, Permission, ReconcileHistory, Signals, Verb};

/// Default shutdown timeout.
const GRACEFUL_SHUTDOWN: Duration = Duration::from_secs(30);

/// Options of a [`Manager`].
#[must_use = "a builder does nothing until `build`"]
pub struct ManagerBuilder {
    spawner: Spawner,
    connection: ConnectionConfig,
    cluster: Box<dyn FnOnce(ClusterBuilder) -> ClusterBuilder + Send>,
    metrics: Metrics,
    history: Option<ReconcileHistory>,
    election: Option<LeaderElectionConfig>,
    lease_connection: Option<ConnectionConfig>,
    on_new_leader: Option<NewLeaderHook>,
    on_started_leading: Option<LeadershipHook>,
    on_stopped_leading: Option<LeadershipHook>,
    graceful_shutdown: Duration,
    concurrency: Option<usize>,
    webhook: WebhookOptions,
    signals: Option<Signals>,
    served: Served,
    span: tracing::Span,
    kept: Vec<Kept>,
    install_crds: bool,
    runnables: Vec<Runnable>,
    stopped_hooks: Vec<StoppedHook>,
    instead: Option<Instead>,
}

/// Address and certificate of a webhook server. The manager only stores them for the code that adds the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebhookOptions {
    /// The host address. Default: `None`, for all addresses.
    pub host: Option<String>,
    /// The port. Default: 9443.
    pub port: u16,
    /// The directory of `tls.crt` and `tls.key`. Default: `k8s-webhook-server/serving-certs` in the system's directory
    /// for temporary files.
    pub certificates: PathBuf,
}

impl Default for WebhookOptions {
    fn default() -> Self {
        let certificates = std::env::temp_dir().join("k8s-webhook-server").join("serving-certs");
        Self { host: None, port: 9443, certificates }
    }
}

impl WebhookOptions {
    /// Listens on one address only. Default: all addresses.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// The port. Default: 9443.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// The directory of the certificate.
    #[must_use]
    pub fn certificates(mut self, folder: impl Into<PathBuf>) -> Self {
        self.certificates = folder.into();
        self
    }
}

impl ManagerBuilder {
    pub(super) fn new(spawner: &Spawner, connection: ConnectionConfig) -> Self {
        Self {
            spawner: spawner.clone(),
            connection,
            cluster: Box::new(|cluster| cluster),
            metrics: Metrics::default(),
            history: None,
            election: None,
            lease_connection: None,
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
            install_crds: false,
            runnables: Vec::new(),
            stopped_hooks: Vec::new(),
            instead: None,
        }
    }

    /// Options of the manager's own cluster: scheme, mapper, cache, client, events. Default: those of a [`Cluster`].
    pub fn cluster(
        mut self,
        options: impl FnOnce(ClusterBuilder) -> ClusterBuilder + Send + 'static,
    ) -> Self {
        let before = self.cluster;
        self.cluster = Box::new(|cluster| options(before(cluster)));
        self
    }

    /// The metrics registry. Default: a new one.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Records the reconciles of all its clusters in one history. Default: each cluster has a history of its own.
    pub fn history(mut self, history: ReconcileHistory) -> Self {
        self.history = Some(history);
        self
    }

    /// Serves metrics, and the further handlers of that server. Default: no metrics server.
    pub fn metrics_server(mut self, server: MetricsServer) -> Self {
        self.served.metrics = Some(server);
        self
    }

    /// Whether the metrics server has a debug page at `/debug`, with the state of controllers, informers and workers,
    /// and the last reconciles with their triggers and errors; see [`debug`](crate::debug). Default: no.
    ///
    /// The page contains names of objects and errors about them, so the metrics server needs TLS, or an address on
    /// loopback: [`build`](Self::build) refuses plain HTTP on other addresses. On loopback without TLS, a request gets
    /// 403 unless its `Host` is an IP address or `localhost`, so that no web site can read the page through DNS
    /// rebinding.
    pub fn debug(mut self, show: bool) -> Self {
        self.served.debug = show;
        self
    }

    /// Serves liveness and readiness checks. Default: no health server.
    pub fn health_server(mut self, server: HealthServer) -> Self {
        self.served.health = Some(server);
        self
    }

    /// Elects a leader among the replicas, which alone runs leader-only work. Default: no election, and every process
    /// runs everything.
    pub fn leader_election(mut self, election: LeaderElectionConfig) -> Self {
        self.election = Some(election);
        self
    }

    /// The connection of the lease, as controller-runtime's `LeaderElectionConfig`: another server, other credentials, or
    /// other limits. The lease is read and written through it alone. Default: a connection of its own to the manager's
    /// server. It has no effect without [`leader_election`](Self::leader_election).
    ///
    /// All replicas must use the same server for the lease. The fence still guards the manager's own connection.
    ///
    /// ```
    /// # use bowline_clock::Spawner;
    /// # use bowline_runtime::leader_election::LeaderElectionConfig;
    /// # use bowline_runtime::{Manager, ManagerError};
    /// # use kube::Config;
    /// fn manager(spawner: &Spawner, workload: Config, host: Config) -> Result<Manager, ManagerError> {
    ///     Manager::builder(spawner, workload)
    ///         .leader_election(LeaderElectionConfig::new("operators", "web"))
    ///         .lease_connection(host)
    ///         .build()
    /// }
    /// ```
    pub fn lease_connection(mut self, connection: impl Into<ConnectionConfig>) -> Self {
        self.lease_connection = Some(connection.into());
        self
    }

    /// Calls a function with the identity of each new leader, this replica included. Default: none.
    pub fn on_new_leader(mut self, hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_new_leader = Some(Box::new(hook));
        self
    }

    /// Calls a function when this replica starts to lead; see [`LeaderElector::on_started_leading`]. Default: none.
    pub fn on_started_leading(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_started_leading = Some(Box::new(hook));
        self
    }

    /// Calls a function when this replica stops leading; after a lost lease, before leader-only work is stopped. See
    /// [`LeaderElector::on_stopped_leading`]. Default: none.
    pub fn on_stopped_leading(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_stopped_leading = Some(Box::new(hook));
        self
    }

    /// The time for a graceful stop. Default: 30 seconds. The last 5 of them, or a quarter if that is less, are
    /// reserved to release the lease and write pending events. Runnables that have not ended before are aborted and
    /// named. Later stages still get half a second each, so that a stop with several late stages may take some seconds
    /// more: set a longer `terminationGracePeriodSeconds` for the pod. Zero aborts everything at once without an error;
    /// [`Duration::MAX`] waits forever.
    pub fn shutdown_timeout(mut self, limit: Duration) -> Self {
        self.graceful_shutdown = limit;
        self
    }

    /// Maximum concurrent reconciles of each controller that [`Manager::controller`] makes, unless the controller sets
    /// [its own](crate::ControllerBuilder::concurrency). Default: 1.
    ///
    /// Zero is an error of [`build`](Self::build).
    pub fn concurrency(mut self, workers: usize) -> Self {
        self.concurrency = Some(workers);
        self
    }

    /// Whether the manager installs the [declared](Manager::crd) definitions of custom kinds when it starts, before
    /// webhooks and informers, and replaces those that differ. Default: no.
    ///
    /// It is for a control plane for development. On a cluster, the definitions belong to the deployment: they affect
    /// all namespaces, and an operator should not have the permission to change them.
    pub fn install_crds(mut self, install: bool) -> Self {
        self.install_crds = install;
        self
    }

    /// Adds a runnable before all others, as [`Manager::add`] does; for code that has the builder and not the manager.
    /// May be called several times. Default: none.
    pub fn runnable(mut self, runnable: impl Into<Runnable>) -> Self {
        self.runnables.push(runnable.into());
        self
    }

    /// Calls a function after the manager has stopped: everything has ended, the lease is released and waiting events are
    /// written, whether that succeeded or not. [`Manager::run`] returns after the function's future has ended. May be called
    /// several times; the functions run in this order. A panic is logged and changes nothing else. Default: none.
    ///
    /// A function of a manager that was never started, or whose `run` was dropped, is dropped without a call.
    pub fn on_stopped<R>(mut self, hook: impl FnOnce() -> R + Send + 'static) -> Self
    where
        R: Future<Output = ()> + Send + 'static,
    {
        self.stopped_hooks.push(Box::new(move || hook().boxed()));
        self
    }

    /// Calls a function in place of a start: [`Manager::run`] returns its result, with an error under this name. It is for
    /// programs that only look at what was declared, for example with [`Manager::describe`]. Default: the manager starts.
    pub fn run_instead<R>(
        mut self,
        name: &'static str,
        function: impl FnOnce(Manager) -> R + Send + 'static,
    ) -> Self
    where
        R: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.instead = Some((name, Box::new(move |manager| function(manager).boxed())));
        self
    }

    /// Address and certificate of a webhook server. Default: port 9443 of all addresses.
    pub fn webhook(mut self, options: WebhookOptions) -> Self {
        self.webhook = options;
        self
    }

    /// A span around all log lines of runnables, for their common fields; see [`ClusterBuilder::span`]. Default: no
    /// span.
    pub fn span(mut self, span: tracing::Span) -> Self {
        self.span = span;
        self
    }

    /// Stops the manager gracefully on a signal, also before its start. A second signal ends the process at once with
    /// status 1, also after the manager has ended, while the scope of its spawner exists. Default: signals are not
    /// handled.
    pub fn signals(mut self, signals: Signals) -> Self {
        self.signals = Some(signals);
        self
    }

    /// Keeps a value until the manager and all its clones are dropped: for example the scope of its spawner, or the
    /// guard of a log writer. Default: nothing.
    pub fn keep(mut self, value: impl Send + Sync + 'static) -> Self {
        self.kept.push(Box::new(value));
        self
    }

    /// Builds the manager. It sends no request before [`run`](Manager::run).
    ///
    /// # Errors
    /// If the options are invalid, the debug page would be open to the network, the configuration does not name a
    /// usable server, or a [runnable](Self::runnable) cannot be added.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn build(self) -> Result<Manager, ManagerError> {
        if self.concurrency == Some(0) {
            return Err(ManagerError::ZeroConcurrency);
        }
        if self.served.debug {
            if let Some(server) = &self.served.metrics {
                server.check_private(DEBUG)?;
            } else {
                tracing::warn!("no metrics server, so the debug page is not served");
            }
        }
        let clock = self.spawner.clock().clone();
        let ways = self.connection.make(&clock, &self.metrics)?;
        let scope = self.spawner.scope("manager");
        let mut cluster = Cluster::builder(&scope.spawner(), ways.route.clone()).span(self.span);
        let mut elector = None;
        let mut lease_permissions = Vec::new();
        if let Some(election) = self.election {
            // A lease on another server is not this cluster's.
            if self.lease_connection.is_none() {
                lease_permissions.extend(election.permissions());
            }
            let connection = self.lease_connection.as_ref().unwrap_or(&self.connection);
            let mut candidate: LeaderElector =
                election.build(&clock, connection.make_lease(&clock, &self.metrics)?)?;
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
        // After the options, so that all metrics go to one registry.
        let cluster = (self.cluster)(cluster).metrics(self.metrics);
        let cluster = match &self.history {
            Some(history) => cluster.history(history.clone()),
            None => cluster,
        };
        let cluster =
            if cluster.is_named() { cluster } else { cluster.named(DEFAULT_CLUSTER_NAME) }.build()?;
        for permission in lease_permissions {
            cluster.permit(permission);
        }
        if self.install_crds {
            let (group, verbs) = ("apiextensions.k8s.io", [Verb::Get, Verb::Create, Verb::Update]);
            let crds = Permission::to_resource(group, "customresourcedefinitions", false, verbs);
            cluster.permit(crds.because("installation of CRDs"));
        }
        let manager = Manager {
            inner: Inner::new(Parts {
                spawner: self.spawner,
                scope,
                cluster,
                history: self.history,
                elector,
                graceful_shutdown: self.graceful_shutdown,
                concurrency: self.concurrency,
                webhook: self.webhook,
                signals: self.signals,
                served: self.served,
                kept: self.kept,
                definitions: Definitions::new(self.install_crds),
                stopped_hooks: self.stopped_hooks,
                instead: self.instead,
            }),
        };
        for runnable in self.runnables {
            manager.add(runnable)?;
        }
        Ok(manager)
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

//! The manager: runs many controllers in one process, starts and stops them in order, and elects a leader among
//! replicas. The manager owns these parts; they do not know it.

mod builder;
mod candidate;
mod connection;
mod definitions;
mod error;
mod lifecycle;
mod runnable;
mod servers;
mod shutdown;
mod stages;
mod status;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bowline_clock::{Clock, Spawner};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::de::DeserializeOwned;

pub use builder::{ManagerBuilder, WebhookOptions};
pub use connection::ConnectionConfig;
pub use error::{Failure, ManagerError};
use lifecycle::Inner;
pub use runnable::{Runnable, Stage};

use crate::controller::{Controller, ControllerBuilder, HasCluster};
use crate::debug::DebugPage;
use crate::health::HealthChecks;
use crate::leader_election::LeaderElector;
use crate::reconciler::IntoReconciler;
use crate::{
    Client, Cluster, ClusterBuilder, ClusterDescription, DESCRIPTION_FORMAT, Metrics, Object,
    OperatorDescription, Permission, Recorder, Verb,
};

/// Runs the controllers and other parts of an operator in one process, as one of several replicas.
///
/// # Start and stop
/// [`run`](Self::run) starts everything by stage: servers, webhooks, informers, work on every replica, and, once this
/// replica leads, leader-only work. Controllers that need leadership sync their caches before, so that a takeover is
/// fast.
///
/// It stops when [`request_stop`](Self::request_stop) is called, on a [signal](ManagerBuilder::signals), when a
/// runnable fails, or when the lease is lost. Then it stops work on every replica, leader-only work, informers,
/// webhooks and servers, releases the lease, and writes pending events. The total time is limited to about [30
/// seconds](ManagerBuilder::shutdown_timeout); runnables that do not end in time are aborted and named in the error.
/// The lease is released only if all leader-only work has stopped; otherwise it is left to expire.
///
/// A manager can be started once. Clones share it.
///
/// # Partial failure
/// A controller waits while its kind is not served, access is forbidden, or its cluster cannot be reached; other
/// controllers do not wait for it. The log, `/readyz/sync` and [`Controller::waiting_for`] name the reason.
/// [`readiness`](Self::readiness) defines whether the process is ready meanwhile. A runnable that returns an error, or
/// panics, stops the manager: the process should then exit and be restarted by its kubelet.
///
/// ```no_run
/// use std::sync::Arc;
/// use bowline_runtime::leader_election::LeaderElectionConfig;
/// use bowline_runtime::{Action, Context, Manager, Result, Signals, transport};
/// use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
///
/// async fn reconcile(ctx: Context, deployment: Arc<Deployment>) -> Result<Action> {
///     Ok(Action::done())
/// }
///
/// # async fn example() -> Result<()> {
/// let scope = bowline_clock::Clock::real().scope("operator");
/// let manager = Manager::builder(&scope.spawner(), transport::config(None).await?)
///     .leader_election(LeaderElectionConfig::new("operators", "deployments"))
///     .signals(Signals::listen()?)
///     .build()?;
/// manager.controller::<Deployment>().owns::<ReplicaSet>().register(reconcile)?;
/// manager.run().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Manager {
    inner: Arc<Inner>,
}

impl Manager {
    /// A builder for a manager of one API server. Its tasks run in a scope below the given spawner's.
    pub fn builder(spawner: &Spawner, connection: impl Into<ConnectionConfig>) -> ManagerBuilder {
        ManagerBuilder::new(spawner, connection.into())
    }

    /// A builder for a controller of one kind; [`register`](ControllerBuilder::register) adds it to this manager.
    pub fn controller<K>(&self) -> ControllerBuilder<K, Self>
    where
        K: kube::Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static,
    {
        self.any_controller().for_()
    }

    /// A builder for a controller without a kind, to set another representation, or none.
    pub fn any_controller(&self) -> ControllerBuilder<(), Self> {
        let builder = ControllerBuilder::at(self.clone());
        match self.inner.concurrency {
            Some(workers) => builder.concurrency(workers),
            None => builder,
        }
    }

    /// Declares a custom kind of this operator, by the definition (CRD) of its type.
    ///
    /// The operator lists its kinds once; test environments, a control plane for development, and manifests read this
    /// [list](Self::crds). A controller cannot know the definition: its type has no schema.
    ///
    /// The manager installs the definitions only with [`install_crds`](ManagerBuilder::install_crds). Declare each version of a
    /// kind with its type: see [`crd_definition`](Self::crd_definition).
    ///
    /// ```
    /// use bowline_runtime::{Manager, ManagerError};
    /// use kube::CustomResource;
    /// use schemars::JsonSchema;
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
    /// #[kube(group = "games.example.com", version = "v1", kind = "Game", namespaced)]
    /// struct GameSpec {
    ///     image: String,
    /// }
    ///
    /// fn operator(manager: &Manager) -> Result<(), ManagerError> {
    ///     manager.crd::<Game>();
    ///     Ok(())
    /// }
    /// ```
    pub fn crd<K: kube::CustomResourceExt>(&self) {
        self.crd_definition(K::crd());
    }

    /// Declares a custom kind of this operator by its definition. As [`crd`](Self::crd).
    ///
    /// Declaring the same definition again changes nothing. Definitions of one kind with different versions are merged: exactly
    /// one version must be the stored one (`#[kube(storage = false)]` on the others). Definitions that do not fit together are an
    /// error of [`crds`](Self::crds) and [`run`](Self::run).
    pub fn crd_definition(&self, definition: CustomResourceDefinition) {
        if self.inner.definitions.install {
            // Whether the kind is served is seen by listing it.
            let (group, names) = (&definition.spec.group, &definition.spec.names);
            let namespaced = definition.spec.scope == "Namespaced";
            let list = Permission::to_resource(group, &names.plural, namespaced, [Verb::List]);
            self.cluster().permit(list.because("installation of CRDs"));
        }
        self.inner.definitions.declare(definition);
    }

    /// The declared definitions, in the order of their declaration. Versions of one kind are one definition.
    ///
    /// # Errors
    /// [`ManagerError::CrdConflict`] if the definitions of one kind do not fit together.
    pub fn crds(&self) -> Result<Vec<CustomResourceDefinition>, ManagerError> {
        self.inner.definitions.all()
    }

    /// Declares that the operator reads objects of a kind outside of its controllers: the permissions `get` and `list`.
    /// Controllers declare [theirs](ControllerBuilder::reads).
    pub fn reads<K: Object>(&self) {
        self.permits(Permission::to::<K>([Verb::Get, Verb::List]).because(format!("reads {}", K::kind(&()))));
    }

    /// Declares that the operator writes objects of a kind outside of its controllers: a permission for each verb. Controllers
    /// declare [theirs](ControllerBuilder::writes).
    pub fn writes<K: Object>(&self, verbs: impl IntoIterator<Item = Verb>) {
        self.permits(Permission::to::<K>(verbs).because(format!("writes {}", K::kind(&()))));
    }

    /// Declares a permission that the operator needs on its own cluster, outside of its controllers.
    pub fn permits(&self, permission: Permission) {
        let reason = if permission.reason.is_empty() { "declares a permission" } else { &permission.reason };
        let reason = format!("manager: {reason}");
        self.cluster().permit(permission.because(reason).declared());
    }

    /// The kinds, controllers and permissions that were declared so far, as data. Call it when the operator's functions have
    /// declared everything.
    ///
    /// ```
    /// # use bowline_runtime::{Manager, ManagerError};
    /// fn print_permissions(manager: &Manager) -> Result<(), ManagerError> {
    ///     for permission in manager.describe()?.permissions {
    ///         println!("{permission}  # {}", permission.reason);
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`crds`](Self::crds).
    pub fn describe(&self) -> Result<OperatorDescription, ManagerError> {
        let further = |cluster: &Cluster| ClusterDescription {
            name: cluster.name().map(ToString::to_string).unwrap_or_default(),
            permissions: cluster.permissions(),
        };
        Ok(OperatorDescription {
            format: DESCRIPTION_FORMAT,
            crds: self.crds()?,
            controllers: self.controllers().iter().map(Controller::describe).collect(),
            permissions: self.cluster().permissions(),
            clusters: self.clusters().iter().skip(1).map(further).collect(),
            namespaces: Vec::new(),
            lease: None,
        })
    }

    /// Adds a [`Runnable`], or a [`Controller`] of one of the manager's clusters. It starts with its stage, or at once
    /// if that has started.
    ///
    /// # Errors
    /// If the manager stops or has stopped, or if a controller belongs to another cluster, runs already, or has an
    /// invalid stage.
    pub fn add(&self, runnable: impl Into<Runnable>) -> Result<(), ManagerError> {
        self.inner.add(runnable.into())
    }

    /// A builder for a further cluster; set its options and [add](Self::add_cluster) it. It uses the manager's metrics,
    /// and the clients of its leader-only controllers use the manager's fence.
    ///
    /// # Errors
    /// If the configuration does not name a usable server.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn connect(&self, connection: impl Into<ConnectionConfig>) -> Result<ClusterBuilder, ManagerError> {
        self.inner.connect(&connection.into())
    }

    /// Adds a further cluster with the manager's metrics: its informers start and stop with those of the manager's own
    /// cluster. Its controllers can be [added](Self::add), and others can
    /// [watch](crate::source::KindSource::in_cluster) its objects; [requests](crate::Request::cluster) contain its
    /// name.
    ///
    /// An unreachable cluster delays only the controllers that watch it. Other starts and the election do not wait for
    /// it, and the process gets [ready](Self::readiness) without it, unless such a controller is
    /// [required](ControllerBuilder::required).
    ///
    /// ```no_run
    /// # fn example(manager: bowline_runtime::Manager, config: kube::Config) -> bowline_runtime::Result<()> {
    /// let hub = manager.add_cluster("hub", manager.connect(config)?)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the manager stops or has stopped, or has a cluster with that name; as [`ClusterBuilder::build`].
    pub fn add_cluster(
        &self,
        name: impl Into<String>,
        builder: ClusterBuilder,
    ) -> Result<Cluster, ManagerError> {
        self.inner.add_cluster(name.into(), builder)
    }

    /// The manager's own cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.inner.cluster
    }

    /// All clusters: the manager's own, then [added](Self::add_cluster) ones.
    #[must_use]
    pub fn clusters(&self) -> Vec<Cluster> {
        self.inner.clusters()
    }

    /// The client of its own cluster for work on every replica; it is not fenced. Reconcilers use [their
    /// own](crate::Context::client).
    #[must_use]
    pub fn client(&self) -> &Client {
        self.cluster().client()
    }

    /// The client of its own cluster for leader-only work: its writes pass only while this replica surely leads.
    /// Without an election it equals [`client`](Self::client).
    #[must_use]
    pub fn elected_client(&self) -> &Client {
        self.cluster().elected_client()
    }

    /// A recorder that emits events in the name of a component.
    #[must_use]
    pub fn recorder(&self, component: &str) -> Recorder {
        self.cluster().recorder(component)
    }

    /// The metrics registry.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        self.cluster().metrics()
    }

    /// The manager's clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        self.cluster().clock()
    }

    /// The added controllers; empty after the stop.
    #[must_use]
    pub fn controllers(&self) -> Vec<Controller> {
        self.inner.controllers()
    }

    /// The candidate of the election, if there is one.
    #[must_use]
    pub fn elector(&self) -> Option<&LeaderElector> {
        self.inner.elector.as_deref()
    }

    /// The liveness checks. Add one that fails when the process must be restarted. With leader election there is one
    /// for the lease.
    #[must_use]
    pub fn liveness(&self) -> &HealthChecks {
        &self.inner.servers.liveness
    }

    /// The readiness checks. A replica that does not lead is ready.
    ///
    /// | check | passes when | counts for `/readyz` |
    /// |---|---|---|
    /// | `manager` | with a runnable of [`Stage::Webhook`]: that stage [serves](Runnable::serving_when); without: the informers of the manager's own cluster have listed, and controllers start | always |
    /// | `controller-NAME` | the sources of the controller have synced; unsynced ones count only if the controller is [required](ControllerBuilder::required) | without webhooks |
    /// | `controller-NAME-changes` | the controller handled all changes: no [predicate or handler failed](Controller::unhandled_changes) on every attempt | always |
    /// | `sync` | the informers of all clusters, and the sources of all controllers, have synced, required or not | never: it is at `/readyz/sync` |
    ///
    /// So *serving* and *synced* are two states. If a kind is stored in another version, listing it needs this
    /// process's conversion webhook, which is called only when the process is ready. So with a webhook, readiness does
    /// not wait for a list.
    #[must_use]
    pub fn readiness(&self) -> &HealthChecks {
        &self.inner.servers.readiness
    }

    /// The address of the metrics server, while it runs.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.inner.servers.metrics_address()
    }

    /// The address of the health server, while it runs.
    #[must_use]
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.inner.servers.health_address()
    }

    /// The debug page, to serve it elsewhere than on the [metrics server](ManagerBuilder::debug). The page itself does
    /// not restrict access: serve it behind TLS with authentication, or on loopback and only to requests whose `Host`
    /// is an IP address or `localhost`.
    #[must_use]
    pub fn debug_page(&self) -> DebugPage {
        self.inner.page()
    }

    /// Address and certificate of a webhook server.
    #[must_use]
    pub fn webhook(&self) -> &WebhookOptions {
        &self.inner.webhook
    }

    /// Starts the manager, and returns when everything has stopped. Dropping the future aborts everything.
    ///
    /// # Errors
    /// If it was started before, or if anything failed: contains the errors of all runnables, a lost lease
    /// ([`ManagerError::is_leadership_lost`]) among them, and the names of those that did not end in time.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn run(&self) -> Result<(), ManagerError> {
        match self.inner.take_instead() {
            Some((name, instead)) => instead(self.clone()).await.map_err(|error| ManagerError::Ended {
                failures: vec![Failure { runnable: name.to_owned(), error }],
                left_behind: Vec::new(),
            }),
            None => lifecycle::run(&self.inner).await,
        }
    }

    /// Requests a graceful stop; [`run`](Self::run) returns when it is complete. A manager that was not started ends at
    /// once.
    pub fn request_stop(&self) {
        self.inner.stop.cancel();
    }

    /// As [`request_stop`](Self::request_stop), and waits until [`run`](Self::run) has returned, which has the errors. Returns at
    /// once if the manager was not started. A runnable of this manager must not wait for it: the manager waits for the runnable.
    pub async fn stop(&self) {
        self.request_stop();
        if self.inner.has_begun() {
            self.inner.ended.cancelled().await;
        }
    }

    /// Waits until leader-only work may run: this replica leads, or there is no election. Never returns otherwise.
    pub async fn wait_elected(&self) {
        self.inner.elected.cancelled().await;
    }

    /// Waits until leader-only work may run, and the workers of all controllers added so far run.
    ///
    /// # Errors
    /// If the manager stopped before, or a controller ended.
    pub async fn wait_ready(&self) -> Result<(), ManagerError> {
        self.inner.ready().await
    }
}

impl crate::controller::has_cluster::Sealed for Manager {}

impl HasCluster for Manager {
    fn cluster(&self) -> &Cluster {
        self.cluster()
    }
}

impl<K: 'static> ControllerBuilder<K, Manager> {
    /// Builds the controller and adds it to the manager, which runs it. See [`build`](Self::build) for reconcilers.
    ///
    /// # Errors
    /// As [`build`](Self::build) and [`Manager::add`].
    pub fn register<F>(self, reconciler: impl IntoReconciler<K, F>) -> Result<Controller, ManagerError> {
        let (controller, manager) = self.build_at(reconciler)?;
        manager.add(controller.clone())?;
        Ok(controller)
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager").field("cluster", self.cluster()).finish_non_exhaustive()
    }
}

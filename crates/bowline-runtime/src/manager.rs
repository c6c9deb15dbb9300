//! What makes an operator a service: many controllers in one process, started and stopped in order, of which one replica
//! acts. It owns; what is owned knows nothing of it.

mod builder;
mod candidate;
mod connection;
mod error;
mod lifecycle;
mod runnable;
mod servers;
mod stages;
mod stopping;
mod telling;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bowline_clock::{Clock, Spawner};
use serde::de::DeserializeOwned;

pub use builder::{ManagerBuilder, WebhookOptions};
pub use connection::Connection;
pub use error::{Failure, ManagerError};
use lifecycle::Inner;
pub use runnable::{Runnable, Stage};

use crate::controller::{Controller, ControllerBuilder, Home};
use crate::debug::DebugPage;
use crate::health::Checks;
use crate::leader_election::Elector;
use crate::reconciler::IntoReconciler;
use crate::{Client, Cluster, ClusterBuilder, Metrics, Recorder};

/// Runs controllers and whatever else an operator consists of, in one process, as one of several replicas.
///
/// # Start and stop
/// [`start`](Self::start) starts what was added, stage by stage: servers, webhooks, the informers of all clusters, what runs on
/// every replica, and last what needs leadership, as soon as this replica leads. Controllers that need leadership see
/// what there is before that, so that a takeover costs no time.
///
/// It stops when [`stop`](Self::stop) is called, a [signal](ManagerBuilder::signals) comes, a runnable fails or the lease is
/// lost: what runs on every replica, what needs leadership, informers, webhooks, servers; then the lease is given up, and
/// events that wait are written. All of that has about [30 seconds](ManagerBuilder::graceful_shutdown); what does not end in
/// time is aborted and named in the error. The lease is given up only if nothing that needed it can still act; otherwise it is
/// left to run out.
///
/// A manager is started once. A clone is the same manager.
///
/// # One thing that fails
/// A controller whose kind is not served, or may not be read, waits until that changes; nobody else waits for it. The log,
/// the readiness probe and [`Controller::waiting_for`] say what it waits for. A runnable that returns an error, or panics,
/// stops the manager: the process is expected to end and to be started again by who watches it.
///
/// ```no_run
/// use std::sync::Arc;
/// use bowline_runtime::leader_election::LeaderElection;
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
///     .leader_election(LeaderElection::new("operators", "deployments"))
///     .signals(Signals::listen()?)
///     .build()?;
/// manager.controller::<Deployment>().owns::<ReplicaSet>().run(reconcile)?;
/// manager.start().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Manager {
    inner: Arc<Inner>,
}

impl Manager {
    /// A manager of what runs on one API server, with options. Its tasks are spawned below the scope whose spawner it is
    /// given.
    pub fn builder(spawner: &Spawner, connection: impl Into<Connection>) -> ManagerBuilder {
        ManagerBuilder::new(spawner, connection.into())
    }

    /// A controller of objects of one kind, to be told what else it watches, and [run](ControllerBuilder::run) by this
    /// manager.
    pub fn controller<K>(&self) -> ControllerBuilder<K, Self>
    where
        K: kube::Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static,
    {
        self.any_controller().for_()
    }

    /// A controller that has not been told what it reconciles: a kind in another form, or none.
    pub fn any_controller(&self) -> ControllerBuilder<(), Self> {
        let builder = ControllerBuilder::at(self.clone());
        match self.inner.concurrency {
            Some(workers) => builder.concurrency(workers),
            None => builder,
        }
    }

    /// Adds something that is to run: a [`Runnable`], or a [`Controller`] of one of the manager's clusters. It starts with
    /// its stage, at once if that has started already.
    ///
    /// # Errors
    /// When the manager stops or has stopped; for a controller of a cluster that is not the manager's, or that runs already, or
    /// in a stage where it does not belong.
    pub fn add(&self, runnable: impl Into<Runnable>) -> Result<(), ManagerError> {
        self.inner.add(runnable.into())
    }

    /// The beginning of a further cluster, to be given options and then [added](Self::add_cluster). It counts where the
    /// manager's own does; the clients of its controllers that need leadership are behind the manager's fence.
    ///
    /// # Errors
    /// When the configuration names no server that can be talked to.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn connect(&self, connection: impl Into<Connection>) -> Result<ClusterBuilder, ManagerError> {
        self.inner.connect(connection.into())
    }

    /// Adds a further cluster, which counts where the manager's own does: its informers start with those of the manager's own, and stop with them. Controllers of it may
    /// be [added](Self::add), and those of others may [watch](crate::source::KindSource::in_cluster) what is on it.
    ///
    /// ```no_run
    /// # fn example(manager: bowline_runtime::Manager, config: kube::Config) -> bowline_runtime::Result<()> {
    /// let hub = manager.add_cluster("hub", manager.connect(config)?)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the manager stops or has stopped, or has a cluster of that name; as [`ClusterBuilder::build`].
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

    /// The client of its own cluster, for what is done on every replica: it is not fenced. Reconcilers have
    /// [theirs](crate::Context::client).
    #[must_use]
    pub fn client(&self) -> &Client {
        self.cluster().client()
    }

    /// The client of its own cluster for what needs leadership: its writes pass only while this replica surely leads. The
    /// same as [`client`](Self::client) where there is no election.
    #[must_use]
    pub fn elected_client(&self) -> &Client {
        self.cluster().elected_client()
    }

    /// Tells people about objects, in the name of a component.
    #[must_use]
    pub fn recorder(&self, component: &str) -> Recorder {
        self.cluster().recorder(component)
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        self.cluster().metrics()
    }

    /// The clock of all that happens here.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        self.cluster().clock()
    }

    /// The controllers that were added; none any more when it has stopped.
    #[must_use]
    pub fn controllers(&self) -> Vec<Controller> {
        self.inner.controllers()
    }

    /// The candidate that stands for election, if there is one.
    #[must_use]
    pub fn elector(&self) -> Option<&Elector> {
        self.inner.elector.as_deref()
    }

    /// The checks of liveness: whoever finds that the process is beyond help, and is to be started anew, adds one. With leader
    /// election there is one of the lease.
    #[must_use]
    pub fn liveness(&self) -> &Checks {
        &self.inner.servers.liveness
    }

    /// The checks of readiness. There is one that the manager has started, and one for each controller, which fails with
    /// the reason as long as the controller waits for what it watches. A replica that does not lead is ready.
    #[must_use]
    pub fn readiness(&self) -> &Checks {
        &self.inner.servers.readiness
    }

    /// Where metrics are served, while they are.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.inner.servers.metrics_address()
    }

    /// Where probes are answered, while they are.
    #[must_use]
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.inner.servers.health_address()
    }

    /// The page that shows what all of it is at, for who serves it elsewhere than the [metrics server](ManagerBuilder::debug)
    /// does.
    #[must_use]
    pub fn debug_page(&self) -> DebugPage {
        self.inner.page()
    }

    /// Where a webhook server is to listen, and with which certificate.
    #[must_use]
    pub fn webhook(&self) -> &WebhookOptions {
        &self.inner.webhook
    }

    /// Starts everything, and returns when all has stopped. When the future is dropped before, everything is aborted.
    ///
    /// # Errors
    /// When something failed: the errors of all runnables, a lost lease ([`ManagerError::is_leadership_lost`]) among them, and
    /// the names of those that did not end in time. When it was started before.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn start(&self) -> Result<(), ManagerError> {
        lifecycle::run(&self.inner).await
    }

    /// Tells it to stop gracefully; [`start`](Self::start) returns when that is done. One that was not started is over.
    pub fn stop(&self) {
        self.inner.stop.cancel();
    }

    /// Waits until this replica leads, or does what needs leadership because there is no election. For ever if it never
    /// does.
    pub async fn elected(&self) {
        self.inner.elected.cancelled().await;
    }

    /// Waits until this replica leads, or needs not to, and all controllers that were added so far reconcile.
    ///
    /// # Errors
    /// When it stopped before, or a controller ended.
    pub async fn ready(&self) -> Result<(), ManagerError> {
        self.inner.ready().await
    }
}

impl crate::controller::home::Sealed for Manager {}

impl Home for Manager {
    fn cluster(&self) -> &Cluster {
        self.cluster()
    }
}

impl<K: 'static> ControllerBuilder<K, Manager> {
    /// Puts the controller together and hands it to the manager, which runs it. For what a reconciler may be, see
    /// [`build`](Self::build).
    ///
    /// # Errors
    /// As [`build`](Self::build) and [`Manager::add`].
    pub fn run<F>(self, reconciler: impl IntoReconciler<K, F>) -> Result<Controller, ManagerError> {
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

//! `ControllerBuilder`: the options of a controller.

use std::error::Error as StdError;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bowline_cache::Kind;
use bowline_workqueue::{ItemExponentialFailure, RateLimiter};
use kube::Resource;
use serde::de::DeserializeOwned;

use super::error::BuildError;
use super::handle::Controller;
use super::has_cluster::HasCluster;
use super::session::{Core, Options};
use super::states::States;
use crate::predicate::Predicate;
use crate::reconciler::IntoReconciler;
use crate::source::Named;
use crate::watch::AnyWatch;
use crate::{
    Cluster, HasMetadata, KindDescription, Object, Permission, Request, Verb, Watch, handler, permission,
    source,
};

/// Options of a controller: its watches and its behavior; from [`Controller::builder`] or
/// [`Manager::controller`](crate::Manager::controller). `K` is the reconciled kind, `()` without one. `H` is the
/// cluster or the manager that it belongs to.
///
/// # Permissions
/// Declarations imply what the operator may do on the cluster. Its RBAC rules are made from them, and a test environment
/// compares them with the requests of the operator.
///
/// | declaration | permissions |
/// |---|---|
/// | [`for_`](ControllerBuilder::for_), `controller::<K>()` | `get`, `list`, `watch`; `update`, `patch` of the status; `update` of the finalizers |
/// | [`owns`](ControllerBuilder::owns) | `get`, `list`, `watch`, `create`, `patch`, `update` |
/// | [`watches`](ControllerBuilder::watches) | `get`, `list`, `watch` of the source's kind |
/// | [`finalizer::with_cleanup`](crate::finalizer::with_cleanup) | `patch` of the kind, where finalizers are written |
/// | [`reads`](ControllerBuilder::reads) | `get`, `list` |
/// | [`writes`](ControllerBuilder::writes) | its verbs |
/// | [`permits`](ControllerBuilder::permits) | its permission |
/// | each cluster | `create`, `patch` of events |
/// | leader election | `create` of leases; `get`, `update` of its lease |
#[must_use = "a builder does nothing until `build`"]
pub struct ControllerBuilder<K, H = Cluster> {
    home: H,
    name: Option<String>,
    kind: Option<Kind<K>>,
    /// The watch of the kind that is reconciled.
    own: Option<Watch<K>>,
    watches: Vec<Arc<dyn AnyWatch>>,
    filters: Vec<Named<dyn Predicate<dyn HasMetadata>>>,
    /// Concurrent reconciles; zero is an error of `build`.
    concurrency: usize,
    state: States,
    permissions: Vec<Permission>,
    options: Options,
}

/// The argument of a [hook](ControllerBuilder::max_retries): an object with exhausted retries.
#[derive(Debug)]
#[non_exhaustive]
pub struct RetriesExhausted<'a> {
    /// The object.
    pub request: &'a Request,
    /// Number of attempts.
    pub attempts: u32,
    /// The error of the last attempt.
    pub error: &'a (dyn StdError + Send + Sync + 'static),
}

impl<H: HasCluster> ControllerBuilder<(), H> {
    /// A builder without a kind.
    pub(crate) fn at(home: H) -> Self {
        Self {
            home,
            name: None,
            kind: None,
            own: None,
            watches: Vec::new(),
            filters: Vec::new(),
            concurrency: 1,
            state: States::default(),
            permissions: Vec::new(),
            options: Options {
                concurrency: NonZeroUsize::MIN,
                limiter: Box::new(|| Box::new(ItemExponentialFailure::default())),
                max_retries: None,
                sync_timeout: None,
                timeout: Duration::from_secs(600),
                stop_timeout: Duration::from_secs(30),
                recover_panics: true,
                resync: None,
                needs_leadership: true,
                warm_up: true,
                required: false,
            },
        }
    }

    /// Reconciles objects of this kind: each that exists, and each that changes.
    pub fn for_<K>(self) -> ControllerBuilder<K, H>
    where
        K: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static,
    {
        self.for_kind(Kind::typed())
    }

    /// As [`for_`](Self::for_), for a kind in any form: typed, dynamic, metadata only or packed.
    pub fn for_kind<K: Resource + Send + Sync + 'static>(self, kind: Kind<K>) -> ControllerBuilder<K, H> {
        let own = Watch::new(source::kind_of(kind.clone()), handler::object());
        let mut permissions = self.permissions;
        permissions.extend(permission::to_reconcile(&kind).map(|needed| reason(needed, "reconciles", &kind)));
        ControllerBuilder {
            home: self.home,
            name: self.name,
            kind: Some(kind),
            own: Some(own),
            watches: self.watches,
            filters: self.filters,
            concurrency: self.concurrency,
            state: self.state,
            permissions,
            options: self.options,
        }
    }
}

impl<K: Resource + Send + Sync + 'static, H: HasCluster> ControllerBuilder<K, H> {
    /// Drops the changes of the reconciled kind that the predicate rejects. Several filters combine: each has to accept
    /// the change. Default: every change is accepted.
    pub fn for_filter(mut self, predicate: impl Predicate<K>) -> Self {
        self.own = self.own.map(|own| own.filter(predicate));
        self
    }

    /// Reconciles the controller of an object of this kind when the object changes: the owner whose reference has
    /// `controller: true`. When the reference changes, the old owner and the new one are reconciled.
    ///
    /// For predicates and for other forms of the kind, see [`owns_with`](Self::owns_with). For all owners, use
    /// [`watches`](Self::watches) with [`handler::owner`]`::<K>().any()`.
    ///
    /// # Panics
    /// Never: [`for_`](ControllerBuilder::for_) was called before, or this type would be another.
    pub fn owns<D>(self) -> Self
    where
        D: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static,
    {
        self.owns_with(Kind::<D>::typed(), |watch| watch)
    }

    /// As [`owns`](Self::owns), for a kind in any form ([typed](Kind::typed), [dynamic](Kind::dynamic),
    /// [metadata only](Kind::metadata), [packed](Kind::packed)), with options of the watch, such as
    /// [predicates](Watch::filter). `|watch| watch` sets no option.
    ///
    /// ```
    /// use bowline_cache::Kind;
    /// use bowline_runtime::predicate::{generation_changed, labels_changed};
    /// use bowline_runtime::{Cluster, ControllerBuilder};
    /// use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
    /// use k8s_openapi::api::core::v1::Secret;
    ///
    /// fn deployments(cluster: &Cluster) -> ControllerBuilder<Deployment> {
    ///     cluster
    ///         .controller::<Deployment>()
    ///         .owns_with(Kind::<ReplicaSet>::typed(), |sets| sets.filter(generation_changed()))
    ///         .owns_with(Kind::packed::<Secret>(), |secrets| secrets.filter(labels_changed()))
    /// }
    /// ```
    ///
    /// # Panics
    /// Never: [`for_`](ControllerBuilder::for_) was called before, or this type would be another.
    pub fn owns_with<D: Resource + Send + Sync + 'static>(
        mut self,
        kind: Kind<D>,
        options: impl FnOnce(Watch<D>) -> Watch<D>,
    ) -> Self {
        let owner = handler::owner_of(self.kind.as_ref().expect("`for_` gave it a kind"));
        self.permissions.push(reason(permission::to_own(&kind), "owns", &kind));
        self.watches(options(Watch::new(source::kind_of(kind), owner)))
    }
}

impl<K: 'static, H: HasCluster> ControllerBuilder<K, H> {
    /// Adds a watch: any [source](crate::source), with a [handler](crate::handler) that maps its changes to requests.
    pub fn watches<D: 'static>(mut self, watch: Watch<D>) -> Self {
        self.watches.push(watch.erase());
        self
    }

    /// Declares that the reconciler reads objects of a kind that the controller does not watch: the
    /// [permissions](Self#permissions) `get` and `list`.
    pub fn reads<D: Object>(self) -> Self {
        let kind = Kind::<D>::typed();
        self.declares(reason(Permission::to_kind(&kind, [Verb::Get, Verb::List]), "reads", &kind))
    }

    /// Declares that the reconciler writes objects of a kind with these verbs: a [permission](Self#permissions) for each. The
    /// verbs of [`owns`](ControllerBuilder::owns) need no declaration.
    ///
    /// ```
    /// use bowline_runtime::{Cluster, ControllerBuilder, Verb};
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    ///
    /// fn deployments(cluster: &Cluster) -> ControllerBuilder<Deployment> {
    ///     cluster
    ///         .controller::<Deployment>()
    ///         .owns::<ConfigMap>()
    ///         .writes::<ConfigMap>([Verb::Delete])
    ///         .reads::<Secret>()
    /// }
    /// ```
    pub fn writes<D: Object>(self, verbs: impl IntoIterator<Item = Verb>) -> Self {
        let kind = Kind::<D>::typed();
        self.declares(reason(Permission::to_kind(&kind, verbs), "writes", &kind))
    }

    /// Declares any other [permission](Self#permissions): for a subresource, for a kind that is known only at run time, or for
    /// some names.
    pub fn permits(self, permission: Permission) -> Self {
        self.declares(permission.because("declares a permission"))
    }

    fn declares(mut self, permission: Permission) -> Self {
        self.permissions.push(permission.declared());
        self
    }

    /// Drops the changes of all watches that the predicate rejects. It sees the metadata of the objects. Payloads of
    /// channels, streams and functions have none, and are not filtered.
    ///
    /// Several filters combine: each has to accept the change. Default: every change is accepted.
    pub fn filter(mut self, predicate: impl Predicate<dyn HasMetadata>) -> Self {
        self.filters.push(Named::predicate(predicate));
        self
    }

    /// Redelivers every object of the watched kinds after each period (at least a second), with low priority, although nothing
    /// changed. A watch whose [source](crate::source::KindSource::resync) has its own period keeps that. Default: as the cache.
    pub fn resync(mut self, period: Duration) -> Self {
        self.options.resync = Some(period);
        self
    }

    /// The name in logs, metrics and events, and the field owner of the client unless the client of the cluster has one. Two
    /// controllers of one cluster, or of clusters that share their [metrics](crate::Metrics), cannot have the same name. Default:
    /// the reconciled kind, in lower case.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Maximum concurrent reconciles. One object is never reconciled twice at once. Default: 1, or
    /// [`ManagerBuilder::concurrency`](crate::ManagerBuilder::concurrency).
    ///
    /// Zero is an error of [`build`](Self::build): such a controller would never reconcile.
    pub fn concurrency(mut self, workers: usize) -> Self {
        self.concurrency = workers;
        self
    }

    /// Gives a value to the reconciler, which reads it with [`Context::state`](crate::Context::state): configuration,
    /// or a client of another API. For reconcilers that are plain functions; a type that implements
    /// [`Reconciler`](crate::Reconciler) keeps such values in its fields. Async handlers read it with
    /// [`HandlerContext::state`](crate::handler::HandlerContext::state).
    ///
    /// A controller has one value of each type: a second one of the same type replaces the first. Default: no value.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use bowline_runtime::{Action, Cluster, Context, Result};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// struct Settings {
    ///     image: String,
    /// }
    ///
    /// async fn reconcile(ctx: Context, config: Arc<ConfigMap>) -> Result<Action> {
    ///     let Settings { image } = ctx.state();
    ///     println!("{:?} uses {image}", config.metadata.name);
    ///     Ok(Action::done())
    /// }
    ///
    /// fn operator(cluster: &Cluster) -> Result<()> {
    ///     let settings = Settings { image: "registry.example/game:1".to_owned() };
    ///     cluster.controller::<ConfigMap>().state(settings).build(reconcile)?;
    ///     Ok(())
    /// }
    /// ```
    pub fn state<S: Send + Sync + 'static>(mut self, state: S) -> Self {
        self.state.insert(state);
        self
    }

    /// The delay of an object after an error. Each start of the controller creates a new limiter. Default:
    /// [`ItemExponentialFailure`], 5 ms, doubled with each error up to 1000 s.
    pub fn limiter<L: RateLimiter<Request>>(
        mut self,
        limiter: impl Fn() -> L + Send + Sync + 'static,
    ) -> Self {
        self.options.limiter = Box::new(move || Box::new(limiter()));
        self
    }

    /// Maximum retries of an object after errors. Then the hook is called, and the object is reconciled at its next
    /// change. Runs that [back off](crate::Action::back_off) are not errors. Default: no maximum; the delay stays at
    /// 1000 s.
    ///
    /// The hook must be quick, and must not block its thread.
    pub fn max_retries(
        mut self,
        retries: u32,
        hook: impl Fn(&RetriesExhausted<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.options.max_retries = Some((retries, Box::new(hook)));
        self
    }

    /// Maximum time for the sources to sync when the controller starts. Then it ends with an error that names the
    /// missing sources; other controllers are not affected. Default: 2 minutes; in a manager, no limit.
    ///
    /// With [`Duration::MAX`] it waits without a limit, for example until the missing CRD is created or the missing
    /// right is granted. Meanwhile the log names the missing sources after 10 seconds and then each minute, and so do
    /// [`Controller::waiting_for`] and the metric `bowline_controller_ready`.
    pub fn sync_timeout(mut self, limit: Duration) -> Self {
        self.options.sync_timeout = Some(limit);
        self
    }

    /// Maximum duration of a reconcile. Then it is dropped at its next await and retried as an error. [`Duration::MAX`]
    /// is no limit. Default: 10 minutes.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.options.timeout = limit;
        self
    }

    /// Maximum time that a [stop](Controller::stop) waits for all running reconciles and sources together. Then they
    /// are dropped at their next await. Default: 30 seconds.
    pub fn stop_timeout(mut self, limit: Duration) -> Self {
        self.options.stop_timeout = limit;
        self
    }

    /// Whether a panic of a reconcile is an error like any other. Otherwise the controller ends with an error. Default:
    /// yes.
    pub fn recover_panics(mut self, recover: bool) -> Self {
        self.options.recover_panics = recover;
        self
    }

    /// Whether it reconciles only while this replica leads, in a manager with leader election. Writes through
    /// [`Context::client`](crate::Context::client) then pass a [fence](crate::leader_election::Fence). A controller that does not
    /// need leadership reconciles on every replica, from the start. Default: yes.
    ///
    /// Without a manager, or without an election, it has no effect.
    pub fn needs_leadership(mut self, needs: bool) -> Self {
        self.options.needs_leadership = needs;
        self
    }

    /// Whether the informers of the watched kinds run while it waits for leadership, so that a takeover needs no list.
    /// Handlers are called only when this replica leads; until then nothing is queued, and other sources than kinds do
    /// not start. Default: yes.
    ///
    /// Without a wait for leadership it has no effect.
    pub fn warm_up(mut self, warm_up: bool) -> Self {
        self.options.warm_up = warm_up;
        self
    }

    /// Whether the process is [ready](crate::Manager::readiness) only if this controller is. Default: no.
    ///
    /// It matters when sources may never sync: a kind whose CRD is not installed, or an unreachable [further
    /// cluster](crate::Manager::add_cluster). A required controller then keeps the process from being ready. In both
    /// cases the log, `/readyz/sync` and the debug page name the missing sources.
    pub fn required(mut self, required: bool) -> Self {
        self.options.required = required;
        self
    }

    /// Builds the controller. It does nothing until it is [started](Controller::start).
    ///
    /// The reconciler is one of
    /// - a function or closure of a [`Context`](crate::Context) and a [`Request`],
    /// - a function or closure of a [`Context`](crate::Context) and an `Arc<K>`, which is called for objects that exist,
    /// - a type that implements [`Reconciler`](crate::Reconciler) or [`ObjectReconciler`](crate::ObjectReconciler).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use bowline_runtime::{Action, Cluster, Context, Controller, Request, Result};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// async fn by_object(ctx: Context, config: Arc<ConfigMap>) -> Result<Action> {
    ///     Ok(Action::done())
    /// }
    ///
    /// fn controllers(cluster: &Cluster) -> Result<()> {
    ///     Controller::builder(cluster).for_::<ConfigMap>().build(by_object)?;
    ///     Controller::builder(cluster)
    ///         .for_::<ConfigMap>()
    ///         .named("by-request")
    ///         .build(|_: Context, _: Request| async { Ok::<_, std::io::Error>(Action::done()) })?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// When the name is taken or missing, there is nothing to watch, or the concurrency is zero.
    pub fn build<F>(self, reconciler: impl IntoReconciler<K, F>) -> Result<Controller, BuildError> {
        self.build_at(reconciler).map(|(controller, _)| controller)
    }

    /// The controller, and the owner of its builder.
    pub(crate) fn build_at<F>(
        self,
        reconciler: impl IntoReconciler<K, F>,
    ) -> Result<(Controller, H), BuildError> {
        let (group, kind) = match &self.kind {
            Some(kind) => (kind.resource().group.clone(), kind.resource().kind.clone()),
            None => Default::default(),
        };
        let name = match self.name.unwrap_or_else(|| kind.to_lowercase()) {
            name if name.is_empty() => return Err(BuildError::NoName),
            name => Arc::<str>::from(name),
        };
        let mut watches: Vec<_> = self.own.map(Watch::erase).into_iter().collect();
        watches.extend(self.watches);
        if watches.is_empty() {
            return Err(BuildError::NothingToWatch { name: name.to_string() });
        }
        let Some(concurrency) = NonZeroUsize::new(self.concurrency) else {
            return Err(BuildError::ZeroConcurrency { name: name.to_string() });
        };
        let cluster = self.home.cluster();
        if let Some(watch) = watches.iter().find(|watch| !watch.can_name_cluster(cluster)) {
            let (name, watch) = (name.to_string(), watch.name().to_owned());
            return Err(BuildError::ClusterUnnamed { name, watch });
        }
        let Some((metrics, claim)) = cluster.metrics().claim(&name) else {
            return Err(BuildError::NameTaken { name: name.to_string() });
        };
        let (history, clock) = (cluster.history(), cluster.clock());
        let client = if self.options.needs_leadership { cluster.elected_client() } else { cluster.client() };
        let workers = concurrency.get();
        for watch in &watches {
            watch.permit(&name, cluster);
        }
        for needed in reconciler.permissions(self.kind.as_ref()).into_iter().chain(self.permissions) {
            let because = format!("controller {name}: {}", needed.reason);
            cluster.permit(needed.because(because));
        }
        let core = Core {
            requeued: metrics.origin(if kind.is_empty() { &name } else { &kind }),
            by_hand: metrics.origin("manual"),
            books: (0..workers).map(|_| history.book(name.clone(), clock.clone())).collect(),
            group,
            kind,
            reconciled: self.kind.as_ref().map(KindDescription::of),
            client: client.field_owner_or(&name),
            recorder: cluster.recorder(&name),
            metrics,
            options: Options { concurrency, ..self.options },
            state: self.state,
            filters: self.filters.into(),
            cluster: cluster.clone(),
            name,
        };
        core.metrics.concurrency.set(i64::try_from(workers).unwrap_or(i64::MAX));
        let task = reconciler.into_task(self.kind.as_ref());
        Ok((Controller::new(core, claim, task, watches), self.home))
    }
}

/// A permission with a reason about a kind.
fn reason<K>(permission: Permission, act: &str, kind: &Kind<K>) -> Permission {
    permission.because(format!("{act} {}", kind.resource().kind))
}

impl<K, H> fmt::Debug for ControllerBuilder<K, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

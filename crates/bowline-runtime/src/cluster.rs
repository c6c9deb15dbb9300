//! A cluster: all objects that belong to one API server.

mod name;

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_cache::{CacheError, CacheOptions, InformerCache, Kind};
use bowline_clock::{Clock, Spawner};
use bowline_machinery::GroupKind;
use serde::de::DeserializeOwned;

pub use name::ClusterName;

use crate::controller::{Controller, ControllerBuilder};
use crate::transport::RequestService;
use crate::{
    ApiSink, Broadcaster, BroadcasterBuilder, Client, ClientBuilder, LogSink, Metrics, Object, Permission,
    ReconcileHistory, Recorder, RestMapper, Scheme, Verb,
};

/// Time for which pending events are written when a cluster stops.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// All objects that belong to one API server: informers, client, metrics, and the history of reconciles.
///
/// Controllers are built from it. Its tasks run in a scope below the given spawner's, and end with that scope. Clones
/// share the cluster.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

struct Inner {
    name: Option<ClusterName>,
    spawner: Spawner,
    kube: kube::Client,
    cache: InformerCache,
    client: Client,
    /// The client of leader-only work, if it differs.
    elected: Option<Client>,
    /// Keeps the informers of kinds that are cached without a controller.
    _informers: Vec<Kept>,
    metrics: Metrics,
    history: ReconcileHistory,
    events: Broadcaster,
    span: tracing::Span,
    permissions: Mutex<BTreeSet<Permission>>,
}

/// Options of a [`Cluster`].
#[must_use = "a builder does nothing until `build`"]
pub struct ClusterBuilder {
    name: Option<ClusterName>,
    spawner: Spawner,
    kube: kube::Client,
    cache: CacheOptions,
    client: ClientBuilder,
    fenced: Option<RequestService>,
    cached: Vec<Declare>,
    metrics: Metrics,
    history: ReconcileHistory,
    events: Option<BroadcasterBuilder>,
    span: tracing::Span,
    permissions: BTreeSet<Permission>,
}

/// Declares a cached kind to a client, and returns the guard that keeps its informer.
type Declare = Box<dyn FnOnce(&Client, &InformerCache) -> Result<Kept, CacheError> + Send>;

/// The permissions of a kind that is cached without a controller.
fn to_cache<K>(kind: &Kind<K>) -> Permission {
    Permission::to_kind(kind, [Verb::Get, Verb::List, Verb::Watch])
        .because(format!("cached: {}", kind.resource().kind))
}

/// Keeps an informer running.
type Kept = Option<Box<dyn Any + Send + Sync>>;

/// A cluster cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// A kind cannot be cached with the given options of the cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl Cluster {
    /// A cluster with default options.
    ///
    /// # Errors
    /// As [`ClusterBuilder::build`].
    pub fn new(spawner: &Spawner, route: impl Into<RequestService>) -> Result<Self, ClusterError> {
        Self::builder(spawner, route).build()
    }

    /// A builder for a cluster.
    pub fn builder(spawner: &Spawner, route: impl Into<RequestService>) -> ClusterBuilder {
        let route = route.into();
        ClusterBuilder {
            name: None,
            spawner: spawner.clone(),
            client: Client::builder(route.clone()),
            fenced: None,
            cached: Vec::new(),
            kube: route.kube_client().clone(),
            cache: CacheOptions::new(),
            metrics: Metrics::default(),
            history: ReconcileHistory::default(),
            events: None,
            span: tracing::Span::none(),
            permissions: BTreeSet::new(),
        }
    }

    /// Its name, which is part of the requests for its objects in other clusters' controllers. A manager's own cluster
    /// is `manager`, unless it was [named](ClusterBuilder::named) otherwise; a cluster that is added to a manager has
    /// the name under which it was added. `None` for an unnamed cluster without a manager.
    #[must_use]
    pub fn name(&self) -> Option<&ClusterName> {
        self.inner.name.as_ref()
    }

    /// The client of operators. It is not fenced: leader-only writes go through
    /// [`Context::client`](crate::Context::client), or [`Context::client_of`](crate::Context::client_of) for another
    /// cluster.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The client of leader-only work. In a [manager](crate::Manager) with leader election it is fenced; otherwise it
    /// equals [`client`](Self::client).
    #[must_use]
    pub fn elected_client(&self) -> &Client {
        self.inner.elected.as_ref().unwrap_or(&self.inner.client)
    }

    /// The kube client below all others.
    #[must_use]
    pub fn kube_client(&self) -> &kube::Client {
        &self.inner.kube
    }

    /// The informers.
    #[must_use]
    pub fn cache(&self) -> &InformerCache {
        &self.inner.cache
    }

    /// The metrics registry.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// The history of the last reconciles.
    #[must_use]
    pub fn history(&self) -> &ReconcileHistory {
        &self.inner.history
    }

    /// A recorder that emits events in the name of a component. See [`Broadcaster::recorder`].
    #[must_use]
    pub fn recorder(&self, component: &str) -> Recorder {
        self.inner.events.recorder(component)
    }

    /// The broadcaster, which writes the recorders' events.
    #[must_use]
    pub fn events(&self) -> &Broadcaster {
        &self.inner.events
    }

    /// Adds a permission: the operator may send such requests to this cluster. Controllers add theirs when they are built.
    pub fn permit(&self, permission: Permission) {
        self.inner.permissions.lock().unwrap_or_else(PoisonError::into_inner).insert(permission);
    }

    /// The permissions that the operator needs on this cluster: those of controllers, also of removed ones, of cached kinds and
    /// of events, and those that were [added](Self::permit). Sorted by resource.
    #[must_use]
    pub fn permissions(&self) -> Vec<Permission> {
        self.inner.permissions.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// A builder for a controller of one kind: short for [`Controller::builder`] and [`for_`](ControllerBuilder::for_).
    pub fn controller<K>(&self) -> ControllerBuilder<K>
    where
        K: kube::Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static,
    {
        Controller::builder(self).for_()
    }

    /// The span around the work of controllers.
    pub(crate) fn span(&self) -> &tracing::Span {
        &self.inner.span
    }

    /// Whether both are the same cluster.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The cluster's clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        self.inner.spawner.clock()
    }

    /// The spawner of the cluster's tasks.
    #[must_use]
    pub fn spawner(&self) -> &Spawner {
        &self.inner.spawner
    }

    /// Starts the informers: the existing ones, and later ones when they are requested. Also starts the writing of
    /// events.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(&self) {
        self.inner.cache.start();
        self.inner.events.start();
    }

    /// Stops the informers, and writes pending events for at most 5 seconds. Both can be started again.
    pub async fn stop(&self) {
        self.inner.cache.stop().await;
        let _is_logged = self.inner.events.stop(FLUSH_LIMIT).await;
    }
}

impl ClusterBuilder {
    /// Sets the [name](Cluster::name). A controller of another cluster can watch this one only if it has a name that
    /// differs from those of its other clusters. Default: none.
    pub fn named(mut self, name: impl Into<Box<str>>) -> Self {
        self.name = Some(ClusterName::new(name));
        self
    }

    /// Whether a name is set.
    pub(crate) fn is_named(&self) -> bool {
        self.name.is_some()
    }

    /// Options of the cache. Default: each requested kind is cached, in all namespaces.
    pub fn cache(mut self, options: CacheOptions) -> Self {
        self.cache = options;
        self
    }

    /// Reads a kind from the cache also without a controller: its informer starts with the cluster.
    pub fn cached<K: Object>(self) -> Self {
        self.cached_kind(Kind::<K>::typed())
    }

    /// Reads a kind in any representation from the cache also without a controller: its informer starts with the
    /// cluster.
    pub fn cached_kind<K: kube::Resource + Send + Sync + 'static>(mut self, kind: Kind<K>) -> Self {
        self.permissions.insert(to_cache(&kind));
        self.cached.push(Box::new(move |client, cache| {
            client.declare(&kind);
            // The kind may be declared as uncached.
            if !client.is_cached(&kind) {
                return Ok(None);
            }
            Ok(Some(Box::new(cache.get_informer(&kind)?)))
        }));
        self
    }

    /// Never reads a kind from the cache, in any representation, also if a controller watches it.
    pub fn uncached<K: Object>(self) -> Self {
        self.client(ClientBuilder::uncached::<K>)
    }

    /// As [`uncached`](Self::uncached), for a kind that is known by name only.
    pub fn uncached_kind(self, kind: &GroupKind) -> Self {
        self.client(|client| client.uncached_kind(kind))
    }

    /// The types of kinds. Default: none; only code that starts from a kind needs them.
    pub fn scheme(self, scheme: Scheme) -> Self {
        self.client(|client| client.scheme(scheme))
    }

    /// The mapping from kinds to resources. Default: discovery at the API server, when needed.
    pub fn mapper(self, mapper: Arc<dyn RestMapper>) -> Self {
        self.client(|client| client.mapper(mapper))
    }

    /// Options of the client: dry run, field owner, read-your-writes timeout and others. Cache and clock are the
    /// cluster's.
    pub fn client(mut self, options: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Self {
        self.client = options(self.client);
        self
    }

    /// The service for requests of leader-only controllers to the same server; it refuses writes while this replica
    /// does not lead. Default: the service of all others.
    pub(crate) fn fenced(mut self, route: impl Into<RequestService>) -> Self {
        self.fenced = Some(route.into());
        self
    }

    /// The metrics registry. Default: a new one.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Records reconciles in this history, which clusters may share. Default: a history of its own.
    pub fn history(mut self, history: ReconcileHistory) -> Self {
        self.history = history;
        self
    }

    /// The event sinks and their limits. Default: the API server ([`ApiSink`]) in events.k8s.io/v1, and the log
    /// ([`LogSink`]).
    pub fn events(mut self, events: BroadcasterBuilder) -> Self {
        self.events = Some(events);
        self
    }

    /// A span around all log lines of controllers, for their common fields. Default: no span.
    ///
    /// It is also the parent of reconciles. An exporter of traces then puts them into one trace that lasts as long as
    /// the span. Prefer attributes of the exporter's resource for such fields.
    pub fn span(mut self, span: tracing::Span) -> Self {
        self.span = span;
        self
    }

    /// Whether the service for leader-only work is set.
    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.is_some()
    }

    /// The kube client below all others.
    pub(crate) fn kube(&self) -> &kube::Client {
        &self.kube
    }

    /// Builds the cluster. It sends no request before it is started.
    ///
    /// # Errors
    /// If the options are invalid.
    pub fn build(self) -> Result<Cluster, ClusterError> {
        let cache = InformerCache::new(&self.spawner, self.kube.clone(), self.cache);
        let client = self.client.cache(cache.clone()).clock(self.spawner.clock().clone()).build();
        let elected = self.fenced.map(|route| client.through(route));
        let informers =
            self.cached.into_iter().map(|declare| declare(&client, &cache)).collect::<Result<_, _>>()?;
        let events = self.events.unwrap_or_else(|| {
            let api = ApiSink::new(self.kube.clone());
            Broadcaster::builder(&self.spawner).sink(api).sink(LogSink::new())
        });
        let mut permissions = self.permissions;
        permissions.extend(events.permissions());
        let events = events.or_metrics(&self.metrics).build();
        Ok(Cluster {
            inner: Arc::new(Inner {
                name: self.name,
                spawner: self.spawner,
                kube: self.kube,
                cache,
                client,
                elected,
                _informers: informers,
                metrics: self.metrics,
                history: self.history,
                events,
                span: self.span,
                permissions: Mutex::new(permissions),
            }),
        })
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { name, cache, .. } = &*self.inner;
        f.debug_struct("Cluster").field("name", name).field("cache", cache).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClusterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterBuilder").finish_non_exhaustive()
    }
}

//! Everything that belongs to one API server, in one place.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bowline_cache::{CacheError, CacheOptions, InformerCache, Kind};
use bowline_clock::{Clock, Spawner};
use bowline_machinery::GroupKind;
use serde::de::DeserializeOwned;

use crate::controller::{Controller, ControllerBuilder};
use crate::transport::Route;
use crate::{
    ApiSink, Broadcaster, BroadcasterBuilder, Client, ClientBuilder, Journal, LogSink, Metrics, Object,
    Recorder, RestMapper, Scheme,
};

/// How long events are written when a cluster stops.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// Everything that belongs to one API server: informers, client, metrics, the journal of what was reconciled.
///
/// Controllers are built from it. Its tasks are spawned below the scope whose spawner it is given, so that the end of that
/// scope is the end of all of it. A clone is the same cluster.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

struct Inner {
    spawner: Spawner,
    kube: kube::Client,
    cache: InformerCache,
    client: Client,
    /// For who needs leadership, if that is another.
    elected: Option<Client>,
    /// Of the kinds that are cached whether or not a controller watches them.
    _informers: Vec<Kept>,
    metrics: Metrics,
    journal: Journal,
    events: Broadcaster,
    span: tracing::Span,
}

/// Options of a [`Cluster`].
#[must_use = "a builder does nothing until `build`"]
pub struct ClusterBuilder {
    spawner: Spawner,
    kube: kube::Client,
    cache: CacheOptions,
    client: ClientBuilder,
    fenced: Option<Route>,
    cached: Vec<Declare>,
    metrics: Metrics,
    events: Option<BroadcasterBuilder>,
    span: tracing::Span,
}

/// Tells a client of a kind that is cached, and gives what keeps its informer.
type Declare = Box<dyn FnOnce(&Client, &InformerCache) -> Result<Kept, CacheError> + Send>;

/// Keeps an informer.
type Kept = Option<Box<dyn Any + Send + Sync>>;

/// Why a cluster cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// A kind that is to be cached cannot be, as the options of the cache are.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl Cluster {
    /// A cluster with default options.
    ///
    /// # Errors
    /// As [`ClusterBuilder::build`].
    pub fn new(spawner: &Spawner, route: impl Into<Route>) -> Result<Self, ClusterError> {
        Self::builder(spawner, route).build()
    }

    /// A cluster with options.
    pub fn builder(spawner: &Spawner, route: impl Into<Route>) -> ClusterBuilder {
        let route = route.into();
        ClusterBuilder {
            spawner: spawner.clone(),
            client: Client::builder(route.clone()),
            fenced: None,
            cached: Vec::new(),
            kube: route.kube().clone(),
            cache: CacheOptions::new(),
            metrics: Metrics::default(),
            events: None,
            span: tracing::Span::none(),
        }
    }

    /// The client that operators use. It is not behind a fence: what only the leader may write goes through
    /// [`Context::client`](crate::Context::client).
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The client of who runs only while this replica leads. In a [manager](crate::Manager) with leader election it is behind
    /// the fence; otherwise it is [`client`](Self::client).
    #[must_use]
    pub fn elected_client(&self) -> &Client {
        self.inner.elected.as_ref().unwrap_or(&self.inner.client)
    }

    /// The client that everything else stands on.
    #[must_use]
    pub fn kube(&self) -> &kube::Client {
        &self.inner.kube
    }

    /// The informers.
    #[must_use]
    pub fn cache(&self) -> &InformerCache {
        &self.inner.cache
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// The last reconciles.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.inner.journal
    }

    /// Tells people about objects, in the name of a component. See [`Broadcaster::recorder`].
    #[must_use]
    pub fn recorder(&self, component: &str) -> Recorder {
        self.inner.events.recorder(component)
    }

    /// What becomes of the events that recorders tell.
    #[must_use]
    pub fn events(&self) -> &Broadcaster {
        &self.inner.events
    }

    /// A controller of objects of one kind: short for [`Controller::builder`] and [`for_`](ControllerBuilder::for_).
    pub fn controller<K>(&self) -> ControllerBuilder<K>
    where
        K: kube::Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static,
    {
        Controller::builder(self).for_()
    }

    /// What controllers do is inside of this.
    pub(crate) fn span(&self) -> &tracing::Span {
        &self.inner.span
    }

    /// Whether both are the same cluster.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The clock of all that happens here.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        self.inner.spawner.clock()
    }

    /// Where tasks are spawned.
    #[must_use]
    pub fn spawner(&self) -> &Spawner {
        &self.inner.spawner
    }

    /// Starts the informers: those that there are, and each from now on as soon as it is asked for. Events are written from
    /// now on.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(&self) {
        self.inner.cache.start();
        self.inner.events.start();
    }

    /// Stops the informers, and writes the events that wait, for at most 5 seconds. All can be started again.
    pub async fn stop(&self) {
        self.inner.cache.stop().await;
        let _is_logged = self.inner.events.shutdown(FLUSH_LIMIT).await;
    }
}

impl ClusterBuilder {
    /// What is cached, and how. Default: each kind that is asked for, in all namespaces.
    pub fn cache(mut self, options: CacheOptions) -> Self {
        self.cache = options;
        self
    }

    /// A kind is read from the cache, whether or not a controller watches it: its informer starts with the cluster.
    pub fn cached<K: Object>(self) -> Self {
        self.cached_kind(Kind::<K>::typed())
    }

    /// A kind in any form is read from the cache, whether or not a controller watches it: its informer starts with the
    /// cluster.
    pub fn cached_kind<K: kube::Resource + Send + Sync + 'static>(mut self, kind: Kind<K>) -> Self {
        self.cached.push(Box::new(move |client, cache| {
            client.declare(&kind);
            // It may have been said that it is never read from there.
            if !client.is_cached(&kind) {
                return Ok(None);
            }
            Ok(Some(Box::new(cache.get_informer(&kind)?)))
        }));
        self
    }

    /// A kind is never read from the cache, in whichever form, also if a controller watches it.
    pub fn uncached<K: Object>(self) -> Self {
        self.client(ClientBuilder::uncached::<K>)
    }

    /// As [`uncached`](Self::uncached), of a kind that only its name is known of.
    pub fn uncached_kind(self, kind: &GroupKind) -> Self {
        self.client(|client| client.uncached_kind(kind))
    }

    /// Which types kinds have. None, by default: it is needed only by who starts from a kind.
    pub fn scheme(self, scheme: Scheme) -> Self {
        self.client(|client| client.scheme(scheme))
    }

    /// Knows where objects are served. By default the API server is asked, when it is needed.
    pub fn mapper(self, mapper: Arc<dyn RestMapper>) -> Self {
        self.client(|client| client.mapper(mapper))
    }

    /// Options of the client: dry run, field owner, barrier deadline and others. Its cache and its clock are the
    /// cluster's.
    pub fn client(mut self, options: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Self {
        self.client = options(self.client);
        self
    }

    /// By which way to the same server controllers that need leadership send all that they ask for: one that lets no write
    /// pass while this replica does not lead. By default the same as everybody.
    pub(crate) fn fenced(mut self, route: impl Into<Route>) -> Self {
        self.fenced = Some(route.into());
        self
    }

    /// Where metrics are counted. Default: a registry of its own.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// What becomes of events: sinks, limits. Default: the API server ([`ApiSink`]) in events.k8s.io/v1, and the log
    /// ([`LogSink`]).
    pub fn events(mut self, events: BroadcasterBuilder) -> Self {
        self.events = Some(events);
        self
    }

    /// What is logged by controllers is inside of this span, for what is true of all of it. Default: no span.
    ///
    /// Reconciles are below it, too. Where traces are exported, they are then parts of one trace, which lasts as long as
    /// the span: rather put such things into the exporter's resource.
    pub fn span(mut self, span: tracing::Span) -> Self {
        self.span = span;
        self
    }

    /// Whether somebody chose the way of who needs leadership.
    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.is_some()
    }

    /// The client that everything else is to stand on.
    pub(crate) fn kube(&self) -> &kube::Client {
        &self.kube
    }

    /// Makes the cluster. Nothing is read from the API server before it is started.
    ///
    /// # Errors
    /// When the options make no sense.
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
        let events = events.or_metrics(&self.metrics).build();
        Ok(Cluster {
            inner: Arc::new(Inner {
                spawner: self.spawner,
                kube: self.kube,
                cache,
                client,
                elected,
                _informers: informers,
                metrics: self.metrics,
                journal: Journal::default(),
                events,
                span: self.span,
            }),
        })
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("cache", &self.inner.cache).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClusterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterBuilder").finish_non_exhaustive()
    }
}

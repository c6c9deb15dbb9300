//! A watch of a controller as a value: a source, predicates and a handler.

use std::fmt;
use std::sync::Arc;

use bowline_cache::CacheError;
use bowline_clock::Spawner;

use crate::controller::Session;
use crate::handler::{HandlerContext, IntoHandler};
use crate::predicate::Predicate;
use crate::source::{
    ChangePipeline, Clusters, Named, PipelineConfig, RunningSource, Source, SourceContext, StartSource,
    SyncProgress, WatchRules,
};
use crate::trigger::TriggerSource;
use crate::{Client, Cluster, KindDescription, Permission, Verb};

/// A watch of a controller: a [source](crate::source) of changes, [predicates](crate::predicate) that select them, and
/// a [handler](crate::handler) that maps them to requests.
///
/// ```
/// use bowline_runtime::predicate::labels_changed;
/// use bowline_runtime::{Request, Watch, handler, source};
/// use k8s_openapi::api::core::v1::{Node, Secret};
///
/// let secrets = Watch::new(
///     source::kind::<Secret>(),
///     handler::map(|secret: &Secret| secret.metadata.labels.iter().flatten()
///         .filter(|(label, _)| *label == "site")
///         .map(|(_, site)| Request::new("default", site))
///         .collect::<Vec<_>>()),
/// );
/// let nodes = Watch::new(source::metadata::<Node>(), handler::object()).filter(labels_changed());
/// # let _ = (secrets, nodes);
/// ```
#[must_use = "a watch does nothing until a controller has it"]
pub struct Watch<K> {
    source: Box<dyn StartSource<K>>,
    rules: WatchRules<K>,
}

impl<K: 'static> Watch<K> {
    /// Reconciles the requests of the handler for changes of the source. The handler is a
    /// [`Handler`](crate::handler::Handler), which may be a closure, an [`AsyncHandler`](crate::handler::AsyncHandler), or the
    /// result of [`map_async`](crate::handler::map_async).
    pub fn new<Form>(source: impl Source<K>, handler: impl IntoHandler<K, Form>) -> Self {
        let rules = WatchRules { predicates: Vec::new(), handler: handler.into_handler() };
        Self { source: Box::new(source), rules }
    }

    /// Drops changes that the predicate rejects. Several filters combine: each has to accept the change. Default: every
    /// change is accepted.
    pub fn filter(mut self, predicate: impl Predicate<K>) -> Self {
        self.rules.predicates.push(Named::predicate(predicate));
        self
    }

    pub(crate) fn erase(self) -> Arc<dyn AnyWatch> {
        Arc::new(Erased { source: self.source, rules: Arc::new(self.rules) })
    }
}

/// A watch of any object type.
pub(crate) trait AnyWatch: Send + Sync {
    fn name(&self) -> &str;
    fn cluster(&self) -> Option<&Cluster>;
    fn kind(&self) -> Option<KindDescription>;
    fn declare(&self, client: &Client);
    fn undeclare(&self, client: &Client);
    fn warm(&self, session: &Session) -> Result<Option<Arc<dyn SyncProgress>>, CacheError>;
    fn begin(
        &self,
        origin: &Arc<TriggerSource>,
        session: &Session,
    ) -> Result<Arc<dyn RunningSource>, CacheError>;
}

impl dyn AnyWatch {
    /// Whether requests can say which cluster its objects are in: the controller's own, or one with a name of its own.
    pub(crate) fn can_name_cluster(&self, home: &Cluster) -> bool {
        self.cluster().is_none_or(|cluster| {
            cluster.is_same(home) || cluster.name().is_some_and(|name| home.name() != Some(name))
        })
    }

    /// Adds the permissions of its informer to its cluster: its own, or else the controller's.
    pub(crate) fn permit(&self, controller: &str, home: &Cluster) {
        let Some(KindDescription { group, kind, plural, namespaced, .. }) = self.kind() else { return };
        let watch =
            Permission::to_resource(&group, &plural, namespaced, [Verb::Get, Verb::List, Verb::Watch]);
        let watch = watch.because(format!("controller {controller}: watches {kind}"));
        self.cluster().unwrap_or(home).permit(watch);
    }
}

struct Erased<K> {
    source: Box<dyn StartSource<K>>,
    rules: Arc<WatchRules<K>>,
}

impl<K: 'static> AnyWatch for Erased<K> {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn cluster(&self) -> Option<&Cluster> {
        self.source.cluster()
    }

    fn kind(&self) -> Option<KindDescription> {
        self.source.kind()
    }

    fn declare(&self, client: &Client) {
        self.source.declare(client);
    }

    fn undeclare(&self, client: &Client) {
        self.source.undeclare(client);
    }

    fn warm(&self, session: &Session) -> Result<Option<Arc<dyn SyncProgress>>, CacheError> {
        self.source.warm(&place(session, &session.spawner()))
    }

    fn begin(
        &self,
        origin: &Arc<TriggerSource>,
        session: &Session,
    ) -> Result<Arc<dyn RunningSource>, CacheError> {
        let home = session.cluster();
        let source = self.source.cluster().filter(|cluster| !cluster.is_same(home));
        let clusters =
            Clusters { home: home.name().cloned(), source: source.and_then(Cluster::name).cloned() };
        let route = PipelineConfig {
            rules: self.rules.clone(),
            filters: session.filters().clone(),
            origin: origin.clone(),
            clusters,
            queue: session.queue().clone(),
            context: HandlerContext::new(session.core().clone()),
        };
        let feed = ChangePipeline::new(Arc::new(route), session.retries().clone());
        self.source.begin(feed, &place(session, &session.spawner()))
    }
}

fn place<'a>(session: &'a Session, spawner: &'a Spawner) -> SourceContext<'a> {
    SourceContext {
        controller: session.name(),
        cluster: session.cluster(),
        spawner,
        resync: session.core().options.resync,
    }
}

impl<K: 'static> fmt::Debug for Watch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("source", &self.source.name())
            .field("predicates", &self.rules.predicates.len())
            .finish_non_exhaustive()
    }
}

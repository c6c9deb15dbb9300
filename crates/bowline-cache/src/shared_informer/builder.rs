//! Builds an informer: sources, options and their defaults.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_clock::Spawner;
use kube::{Client, Resource};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Listeners, Part, Shared, SharedInformer, Tasks};
use crate::delta_fifo::{CAPACITY, DeltaFifo};
use crate::indexer::Indexer;
use crate::kind::Kind;
use crate::list_watch::{ClientListWatch, ListWatch, ListWatchError, Selectors};
use crate::metrics::{Metrics, NoMetrics};
use crate::namespaces::Namespaces;
use crate::reflector::{Decoder, ErrorHook, Health, Settings, Transform};
use crate::undecodable::UndecodableObjects;

/// Default page size, as in client-go.
const PAGE: u32 = 500;

/// Builds a [`SharedInformer`].
#[must_use = "an informer is only there when it is built"]
pub struct InformerBuilder<K> {
    spawner: Spawner,
    kind: Kind<K>,
    sources: Vec<(Namespaces, Arc<dyn ListWatch>)>,
    /// Namespaces with kept `managedFields`.
    managed_fields: Vec<Namespaces>,
    transform: Option<Transform<K>>,
    resync: Option<Duration>,
    settings: Settings,
    metrics: Arc<dyn Metrics>,
    on_error: Option<ErrorHook>,
}

/// Error of [`InformerBuilder::build`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InformerError {
    /// No source was given.
    #[error("an informer of {kind} needs a source: call `client` or `source`")]
    NoSource {
        /// The kind of the informer.
        kind: String,
    },
    /// Two sources cover the same objects, so their lists would contradict each other.
    #[error("two sources of an informer of {kind} cover the same objects: {first} and {second}")]
    Overlap {
        /// The kind of the informer.
        kind: String,
        /// Namespaces of one source.
        first: Namespaces,
        /// Namespaces of the other source.
        second: Namespaces,
    },
}

impl<K: Resource + Send + Sync + 'static> InformerBuilder<K> {
    pub(super) fn new(spawner: Spawner, kind: Kind<K>) -> Self {
        Self {
            spawner,
            kind,
            sources: Vec::new(),
            managed_fields: Vec::new(),
            transform: None,
            resync: None,
            settings: Settings { streaming: true, page: PAGE },
            metrics: Arc::new(NoMetrics),
            on_error: None,
        }
    }

    /// Adds all objects of an API server as a source.
    pub fn client(self, client: Client) -> Self {
        self.selected(client, Namespaces::All, Selectors::default())
    }

    /// Adds the selected objects of an API server in some namespaces as a source. May be called several times for
    /// different namespaces.
    pub fn selected(self, client: Client, namespaces: Namespaces, mut selectors: Selectors) -> Self {
        let namespace = match &namespaces {
            Namespaces::All => None,
            Namespaces::One(namespace) => Some(namespace.as_str()),
            Namespaces::AllBut(except) => {
                let except = except.iter().map(|namespace| format!("metadata.namespace!={namespace}"));
                let all: Vec<_> = Some(selectors.fields)
                    .filter(|fields| !fields.is_empty())
                    .into_iter()
                    .chain(except)
                    .collect();
                selectors.fields = all.join(",");
                None
            }
        };
        let list_watch = ClientListWatch::new(client, &self.kind, namespace, selectors);
        self.source(namespaces, list_watch)
    }

    /// Adds any other source. Its list must be complete for these namespaces.
    pub fn source(mut self, namespaces: Namespaces, list_watch: impl ListWatch) -> Self {
        self.sources.push((namespaces, Arc::new(list_watch)));
        self
    }

    /// Keeps `metadata.managedFields` in all namespaces. Default: they are skipped, since they are often half of an
    /// object and seldom read.
    pub fn keep_managed_fields(self) -> Self {
        self.keep_managed_fields_in(Namespaces::All)
    }

    /// Keeps `metadata.managedFields` in some namespaces. May be called several times.
    pub fn keep_managed_fields_in(mut self, namespaces: Namespaces) -> Self {
        self.managed_fields.push(namespaces);
        self
    }

    /// Changes each object once, before it is cached; typically drops fields. It must not change name, namespace, uid
    /// and resource version. If it panics, the object is set aside. Default: none.
    pub fn transform(mut self, transform: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Delivers every object to handlers again after each period. A handler's own period takes precedence. Minimum: 1
    /// second. Default: never.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period.max(Duration::from_secs(1)));
        self
    }

    /// Whether to request a list as a watch first (`sendInitialEvents`), which costs the server less. If the server
    /// does not support it, the reflector sends an ordinary list request. Default: true.
    pub fn streaming_lists(mut self, streaming: bool) -> Self {
        self.settings.streaming = streaming;
        self
    }

    /// Items per page, if a list is read in pages. Default: 500.
    pub fn page_size(mut self, items: std::num::NonZeroU32) -> Self {
        self.settings.page = items.get();
        self
    }

    /// Receiver of measurements. Default: none; [`SharedInformer::stats`] is always available.
    pub fn metrics(mut self, metrics: impl Metrics) -> Self {
        self.metrics = Arc::new(metrics);
        self
    }

    /// Called with each failed list and watch. The informer retries by itself, and logs the same error once. Default:
    /// none.
    pub fn on_error(mut self, hook: impl Fn(&ListWatchError) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Arc::new(hook));
        self
    }

    /// Builds the informer. It does nothing until it is [started](SharedInformer::start).
    ///
    /// # Errors
    /// [`InformerError`] if there is no source, or if two sources overlap.
    pub fn build(self) -> Result<SharedInformer<K>, InformerError> {
        self.check_sources()?;
        let clock = self.spawner.clock().clone();
        let indexer = Arc::new(Indexer::new());
        let decoder = Arc::new(Decoder {
            kind: self.kind.clone(),
            managed_fields: self.managed_fields,
            transform: self.transform,
            indexer: indexer.clone(),
            undecodable: Arc::new(UndecodableObjects::default()),
            metrics: self.metrics.clone(),
        });
        let parts: Vec<_> = self
            .sources
            .into_iter()
            .map(|(namespaces, list_watch)| Part {
                namespaces,
                list_watch,
                health: Arc::new(Health::new(clock.clone())),
                reflecting: tokio::sync::Mutex::default(),
                again: Notify::new(),
                reached: AtomicU64::new(0),
            })
            .collect();
        let listeners = Listeners { all: Vec::new(), versions: vec![None; parts.len()], named: 0 };
        let handlers = self.spawner.scope(format!("informer of {}", self.kind));
        let shared = Shared {
            kind: self.kind,
            clock,
            indexer,
            fifo: Arc::new(DeltaFifo::new(CAPACITY)),
            decoder,
            parts,
            listeners: Mutex::new(listeners),
            applying: tokio::sync::Mutex::default(),
            resyncs: Notify::new(),
            synced: CancellationToken::new(),
            changed: Notify::new(),
            events: AtomicU64::new(0),
            metrics: self.metrics,
            on_error: self.on_error,
            settings: self.settings,
            resync: self.resync,
        };
        let tasks = Tasks { spawner: handlers.spawner(), handlers, running: Mutex::new(None) };
        Ok(SharedInformer { shared: Arc::new(shared), tasks: Arc::new(tasks) })
    }

    fn check_sources(&self) -> Result<(), InformerError> {
        let kind = || self.kind.to_string();
        if self.sources.is_empty() {
            return Err(InformerError::NoSource { kind: kind() });
        }
        for (number, (first, _)) in self.sources.iter().enumerate() {
            for (second, _) in &self.sources[number + 1..] {
                if first.overlaps(second) {
                    return Err(InformerError::Overlap {
                        kind: kind(),
                        first: first.clone(),
                        second: second.clone(),
                    });
                }
            }
        }
        Ok(())
    }
}

impl<K> fmt::Debug for InformerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources: Vec<_> = self.sources.iter().map(|(namespaces, _)| namespaces).collect();
        f.debug_struct("InformerBuilder")
            .field("kind", &format_args!("{}", self.kind))
            .field("sources", &sources)
            .finish_non_exhaustive()
    }
}

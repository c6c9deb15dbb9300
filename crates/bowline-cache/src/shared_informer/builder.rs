//! How an informer is put together.

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
use crate::set_aside::Shelf;

/// So many items are on one page by default, as in client-go.
const PAGE: u32 = 500;

/// Puts an informer together.
#[must_use = "an informer is only there when it is built"]
pub struct InformerBuilder<K> {
    spawner: Spawner,
    kind: Kind<K>,
    sources: Vec<(Namespaces, Arc<dyn ListWatch>)>,
    /// Where they are kept.
    managed_fields: Vec<Namespaces>,
    transform: Option<Transform<K>>,
    resync: Option<Duration>,
    settings: Settings,
    metrics: Arc<dyn Metrics>,
    on_error: Option<ErrorHook>,
}

/// Why there is no informer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InformerError {
    /// It has nowhere to get its objects from.
    #[error("an informer of {kind} needs a source: call `client` or `source`")]
    NoSource {
        /// What it would have been an informer of.
        kind: String,
    },
    /// Two sources would contradict each other about what is there.
    #[error("two sources of an informer of {kind} cover the same objects: {first} and {second}")]
    Overlap {
        /// What it would have been an informer of.
        kind: String,
        /// What one of them covers.
        first: Namespaces,
        /// What another covers.
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

    /// All objects that an API server has.
    pub fn client(self, client: Client) -> Self {
        self.selected(client, Namespaces::All, Selectors::default())
    }

    /// The objects that an API server has in some namespaces and that it selects. May be called several times for
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

    /// Objects from anywhere else. What is listed there is all that there is in these namespaces.
    pub fn source(mut self, namespaces: Namespaces, list_watch: impl ListWatch) -> Self {
        self.sources.push((namespaces, Arc::new(list_watch)));
        self
    }

    /// Keeps `metadata.managedFields`, which are skipped by default: they are often half of an object, and hardly anybody
    /// reads them.
    pub fn keep_managed_fields(self) -> Self {
        self.keep_managed_fields_in(Namespaces::All)
    }

    /// Keeps `metadata.managedFields` of the objects in some namespaces. May be called several times.
    pub fn keep_managed_fields_in(mut self, namespaces: Namespaces) -> Self {
        self.managed_fields.push(namespaces);
        self
    }

    /// Done to each object once, before anybody sees it; typically dropping what nobody needs. It must leave name,
    /// namespace, uid and resource version alone. If it panics, the object is set aside.
    pub fn transform(mut self, transform: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Tells handlers of every object again after each period, unless they were added with a period of their own. At least
    /// a second. Never, by default.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period.max(Duration::from_secs(1)));
        self
    }

    /// Whether a list is asked for as a watch first (`sendInitialEvents`), which costs the server less; one that does not
    /// know it is asked for an ordinary list. Yes, by default.
    pub fn streaming_lists(mut self, streaming: bool) -> Self {
        self.settings.streaming = streaming;
        self
    }

    /// So many items on one page, where a list has to be read in pages: 500, by default.
    pub fn page_size(mut self, items: std::num::NonZeroU32) -> Self {
        self.settings.page = items.get();
        self
    }

    /// Where the informer reports what it does. Nowhere, by default; [`SharedInformer::stats`] can always be asked.
    pub fn metrics(mut self, metrics: impl Metrics) -> Self {
        self.metrics = Arc::new(metrics);
        self
    }

    /// Is told of every list and watch that failed. The informer tries again by itself. It is logged in any case,
    /// the same error once.
    pub fn on_error(mut self, hook: impl Fn(&ListWatchError) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Arc::new(hook));
        self
    }

    /// Puts it together. It does nothing until it is [started](SharedInformer::start).
    ///
    /// # Errors
    /// [`InformerError`]
    pub fn build(self) -> Result<SharedInformer<K>, InformerError> {
        self.check_sources()?;
        let clock = self.spawner.clock().clone();
        let indexer = Arc::new(Indexer::new());
        let decoder = Arc::new(Decoder {
            kind: self.kind.clone(),
            managed_fields: self.managed_fields,
            transform: self.transform,
            indexer: indexer.clone(),
            shelf: Arc::new(Shelf::default()),
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

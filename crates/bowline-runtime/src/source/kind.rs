//! Changes of the objects of a kind, from an informer of a cluster's cache.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_cache::{CacheError, HandlerOptions, InformerHandle, Kind, Packed, Registration, Subscription};
use bowline_clock::Scope;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Resource;
use kube::core::PartialObjectMeta;
use serde::de::DeserializeOwned;

use super::{ChangePipeline, RunningSource, SourceContext, StartSource, SyncBlocker, SyncProgress};
use crate::change::OwnedChange;
use crate::{Client, Cluster, KindDescription};

/// The objects of a kind; from [`kind`], [`metadata`], [`packed`] or [`kind_of`].
#[must_use = "a source does nothing until a controller watches it"]
pub struct KindSource<K> {
    kind: Kind<K>,
    name: String,
    /// Another than the controller's.
    cluster: Option<Cluster>,
    resync: Option<Duration>,
}

/// All changes of the objects of a kind that the cluster's cache holds.
///
/// Controllers that watch the same kind in the same form share one watch at the server.
pub fn kind<K>() -> KindSource<K>
where
    K: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned,
{
    kind_of(Kind::typed())
}

/// As [`kind`], with the metadata of the objects only: for kinds that are large or many, when nothing else is needed.
pub fn metadata<K>() -> KindSource<PartialObjectMeta<K>>
where
    K: Resource<DynamicType = (), Scope: 'static>,
{
    kind_of(Kind::metadata())
}

/// As [`kind`], with each object kept as JSON beside its metadata, which takes a fraction of the memory: see [`Packed`]. Typed
/// reads through the [`Client`] come from this cache and are decoded each time, unless the kind is also watched as typed objects.
pub fn packed<K>() -> KindSource<Packed>
where
    K: Resource<DynamicType = (), Scope: 'static>,
{
    kind_of(Kind::packed::<K>())
}

/// As [`kind`], for a kind in any form, also one that is known only at run time.
pub fn kind_of<K>(kind: Kind<K>) -> KindSource<K> {
    KindSource { name: kind.resource().kind.clone(), kind, cluster: None, resync: None }
}

impl<K> KindSource<K> {
    /// The objects of another cluster than the controller's, which must have a [name](Cluster::name): a watch of one that has
    /// none is refused. Triggers call the source by the kind and that name: `Secret@hub`.
    ///
    /// [`handler::object`](crate::handler::object) and [`handler::owner`](crate::handler::owner) make
    /// [requests](crate::Request) that name the cluster. A handler of one's own decides: [`Request::new`](crate::Request::new)
    /// is an object of the controller's cluster, and [`Requests::cluster`](crate::handler::Requests::cluster) names this one.
    pub fn in_cluster(mut self, cluster: &Cluster) -> Self {
        let kind = &self.kind.resource().kind;
        self.name = cluster.name().map_or_else(|| kind.clone(), |cluster| format!("{kind}@{cluster}"));
        self.cluster = Some(cluster.clone());
        self
    }

    /// Redelivers every object after each period (at least a second), with low priority. Default: as the
    /// [controller](crate::ControllerBuilder::resync), or else the cache.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }
}

impl<K: Resource + Send + Sync + 'static> KindSource<K> {
    fn informer(&self, place: &SourceContext<'_>) -> Result<InformerHandle<K>, CacheError> {
        self.cluster.as_ref().unwrap_or(place.cluster).cache().get_informer(&self.kind)
    }
}

impl<K: Resource + Send + Sync + 'static> StartSource<K> for KindSource<K> {
    fn name(&self) -> &str {
        &self.name
    }

    fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    fn kind(&self) -> Option<KindDescription> {
        Some(KindDescription::of(&self.kind))
    }

    fn declare(&self, client: &Client) {
        if self.cluster.is_none() {
            client.declare(&self.kind);
        }
    }

    fn undeclare(&self, client: &Client) {
        if self.cluster.is_none() {
            client.undeclare(&self.kind);
        }
    }

    fn warm(&self, place: &SourceContext<'_>) -> Result<Option<Arc<dyn SyncProgress>>, CacheError> {
        Ok(Some(Arc::new(Holding(self.informer(place)?))))
    }

    fn begin(
        &self,
        feed: ChangePipeline<K>,
        place: &SourceContext<'_>,
    ) -> Result<Arc<dyn RunningSource>, CacheError> {
        let informer = self.informer(place)?;
        let options = HandlerOptions::default().name(format!("controller {}", place.controller));
        let options = match self.resync.or(place.resync) {
            Some(period) => options.resync(period),
            None => options,
        };
        let (registration, task) = if feed.is_async() {
            let subscription = informer.subscribe_with(options);
            let registration = subscription.registration();
            let scope = place.spawner.scope(&self.name);
            let cancellation = scope.cancellation();
            scope.spawn("async handler", async move {
                tokio::select! {
                    biased;
                    () = cancellation.cancelled() => {}
                    () = handle_events(subscription, feed) => {}
                }
            });
            (registration, Some(scope))
        } else {
            (informer.add_handler_with(feed, options), None)
        };
        let informer = Mutex::new(Some(informer));
        Ok(Arc::new(Watching { informer, registration: Arc::new(registration), task }))
    }
}

/// Handles events one at a time with an async handler. Meanwhile others wait in the subscription, which keeps no more than one
/// for each object when they become many.
async fn handle_events<K: Resource + Send + Sync + 'static>(
    mut subscription: Subscription<K>,
    mut feed: ChangePipeline<K>,
) {
    while let Some(event) = subscription.next().await {
        feed.take_or_keep(&OwnedChange::of(&event)).await;
    }
}

/// An informer that is in use, so that it is there and in sync when a handler is added.
struct Holding<K>(InformerHandle<K>);

impl<K: Resource + Send + Sync + 'static> SyncProgress for Holding<K> {
    fn synced(&self) -> BoxFuture<'_, ()> {
        self.0.wait_synced().boxed()
    }

    fn waiting_for(&self) -> Vec<SyncBlocker> {
        self.0.not_synced().into_iter().map(SyncBlocker::Informer).collect()
    }
}

/// A handler at an informer, which is in use as long as the handler is.
struct Watching<K> {
    informer: Mutex<Option<InformerHandle<K>>>,
    registration: Arc<Registration>,
    /// The task of an async handler.
    task: Option<Scope>,
}

impl<K> Watching<K> {
    fn informer(&self) -> std::sync::MutexGuard<'_, Option<InformerHandle<K>>> {
        self.informer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Resource + Send + Sync + 'static> SyncProgress for Watching<K> {
    fn synced(&self) -> BoxFuture<'_, ()> {
        self.registration.wait_synced().map(|_| ()).boxed()
    }

    fn waiting_for(&self) -> Vec<SyncBlocker> {
        if self.registration.has_synced() {
            return Vec::new();
        }
        let Some(informer) = self.informer().clone() else { return Vec::new() };
        let missing = informer.not_synced();
        if missing.is_empty() {
            let (kind, waiting) = (informer.kind().to_string(), self.registration.waiting());
            return vec![SyncBlocker::Handler { kind, waiting }];
        }
        missing.into_iter().map(SyncBlocker::Informer).collect()
    }
}

impl<K: Resource + Send + Sync + 'static> RunningSource for Watching<K> {
    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(task) = &self.task {
                // The handler is dropped where it waits.
                let _ = task.drain(Duration::MAX).await;
            }
            self.registration.unregister().await;
            drop(self.informer().take());
        })
    }
}

impl<K> fmt::Debug for KindSource<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KindSource").field(&format_args!("{}", self.kind)).finish()
    }
}

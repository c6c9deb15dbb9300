//! Changes of the objects of a kind, from an informer of a cluster's cache.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_cache::{CacheError, HandlerOptions, Informer, InformerCache, Kind, Packed, Registration};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Resource;
use kube::core::PartialObjectMeta;
use serde::de::DeserializeOwned;

use super::{Begin, Begun, Feed, Obstacle, Place, Progress};
use crate::{Client, Cluster};

/// The objects of a kind; from [`kind`], [`metadata`], [`packed`] or [`kind_of`].
#[must_use = "a source does nothing until a controller watches it"]
pub struct KindSource<K> {
    kind: Kind<K>,
    /// That of another cluster than the controller's.
    cache: Option<InformerCache>,
    resync: Option<Duration>,
}

/// All changes of the objects of a kind, as far as the cluster's cache holds them.
///
/// Controllers that watch the same kind in the same form share one watch at the server.
pub fn kind<K>() -> KindSource<K>
where
    K: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned,
{
    kind_of(Kind::typed())
}

/// The same, of which only the metadata is read and kept: for kinds that are large, or many, and of which nothing else is
/// needed to know whom they concern.
pub fn metadata<K>() -> KindSource<PartialObjectMeta<K>>
where
    K: Resource<DynamicType = (), Scope: 'static>,
{
    kind_of(Kind::metadata())
}

/// The same, each object kept as JSON beside its metadata, which takes a fraction of the memory: see [`Packed`]. Typed reads
/// through the [`Client`] come from this cache and are decoded each time, unless the kind is also watched as typed objects.
pub fn packed<K>() -> KindSource<Packed>
where
    K: Resource<DynamicType = (), Scope: 'static>,
{
    kind_of(Kind::packed::<K>())
}

/// The same, for a kind in any form, also one that is known only at run time.
pub fn kind_of<K>(kind: Kind<K>) -> KindSource<K> {
    KindSource { kind, cache: None, resync: None }
}

impl<K> KindSource<K> {
    /// The objects of another cluster than the controller's.
    pub fn in_cluster(mut self, cluster: &Cluster) -> Self {
        self.cache = Some(cluster.cache().clone());
        self
    }

    /// Shows every object once more after each period (at least a second), with low priority. By default as the
    /// [controller](crate::ControllerBuilder::resync) has it, or else the cache.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }
}

impl<K: Resource + Send + Sync + 'static> KindSource<K> {
    fn informer(&self, place: &Place<'_>) -> Result<Informer<K>, CacheError> {
        self.cache.as_ref().unwrap_or_else(|| place.cluster.cache()).get_informer(&self.kind)
    }
}

impl<K: Resource + Send + Sync + 'static> Begin<K> for KindSource<K> {
    fn name(&self) -> &str {
        &self.kind.resource().kind
    }

    fn declare(&self, client: &Client) {
        if self.cache.is_none() {
            client.declare(&self.kind);
        }
    }

    fn undeclare(&self, client: &Client) {
        if self.cache.is_none() {
            client.undeclare(&self.kind);
        }
    }

    fn warm(&self, place: &Place<'_>) -> Result<Option<Arc<dyn Progress>>, CacheError> {
        Ok(Some(Arc::new(Holding(self.informer(place)?))))
    }

    fn begin(&self, feed: Feed<K>, place: &Place<'_>) -> Result<Arc<dyn Begun>, CacheError> {
        let informer = self.informer(place)?;
        let options = HandlerOptions::default().name(format!("controller {}", place.controller));
        let options = match self.resync.or(place.resync) {
            Some(period) => options.resync(period),
            None => options,
        };
        let registration = Arc::new(informer.add_handler_with(options, feed));
        Ok(Arc::new(Watching { informer: Mutex::new(Some(informer)), registration }))
    }
}

/// An informer that is in use, so that it is there and in sync when a handler is added.
struct Holding<K>(Informer<K>);

impl<K: Resource + Send + Sync + 'static> Progress for Holding<K> {
    fn synced(&self) -> BoxFuture<'_, ()> {
        self.0.synced().boxed()
    }

    fn waiting_for(&self) -> Vec<Obstacle> {
        self.0.not_synced().into_iter().map(Obstacle::Informer).collect()
    }
}

/// A handler at an informer, which is in use as long as the handler is.
struct Watching<K> {
    informer: Mutex<Option<Informer<K>>>,
    registration: Arc<Registration>,
}

impl<K> Watching<K> {
    fn informer(&self) -> std::sync::MutexGuard<'_, Option<Informer<K>>> {
        self.informer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Resource + Send + Sync + 'static> Progress for Watching<K> {
    fn synced(&self) -> BoxFuture<'_, ()> {
        self.registration.synced().map(|_| ()).boxed()
    }

    fn waiting_for(&self) -> Vec<Obstacle> {
        if self.registration.has_synced() {
            return Vec::new();
        }
        let Some(informer) = self.informer().clone() else { return Vec::new() };
        let missing = informer.not_synced();
        if missing.is_empty() {
            let (kind, waiting) = (informer.kind().to_string(), self.registration.waiting());
            return vec![Obstacle::Handler { kind, waiting }];
        }
        missing.into_iter().map(Obstacle::Informer).collect()
    }
}

impl<K: Resource + Send + Sync + 'static> Begun for Watching<K> {
    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.registration.close().await;
            drop(self.informer().take());
        })
    }
}

impl<K> fmt::Debug for KindSource<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KindSource").field(&format_args!("{}", self.kind)).finish()
    }
}

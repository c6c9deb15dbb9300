//! Read-your-writes: a read from the cache includes the client's own earlier writes. Owns the waiting and its end.

use std::pin::pin;

use bowline_cache::{ObjectKey, SharedInformer};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::error::ClientError;
use super::kind_client::{KindClient, Task};
use super::writes::{CacheReadiness, Late, Reading, Version, View};

/// Scope of a read.
#[derive(Clone, Copy)]
pub(super) enum Read<'a> {
    /// One object.
    One(&'a ObjectKey),
    /// All objects of a namespace, or of all namespaces.
    All(Option<&'a str>),
}

/// State of the cache for a read.
pub(super) enum Freshness {
    /// The cache has all writes.
    Current,
    /// The cache lacks a write: ask the server.
    Behind(Late),
}

impl<K: Resource + Send + Sync + 'static> KindClient<K> {
    /// Waits until an informer has all writes in the scope, or until the deadline.
    pub(super) async fn freshness(
        &self,
        task: Task<'_>,
        informer: &SharedInformer<K>,
        read: Read<'_>,
    ) -> Freshness {
        let writes = &self.binding.writes;
        let Some(reader) = self.binding.reader().filter(|_| !self.client.options.is_unordered) else {
            return Freshness::Current;
        };
        if writes.is_empty() {
            return Freshness::Current;
        }
        let clock = self.client.clock();
        let started = writes.moment(clock.now());
        let view = Informed(informer);
        let look = || {
            let reading = Reading { reader, started, view: &view, now: clock.now() };
            match read {
                Read::One(key) => writes.look(key, reading),
                Read::All(namespace) => writes.look_at_all(namespace, reading),
            }
        };
        let late = loop {
            // Subscribe before the check, so that no change in between is missed.
            let changed = pin!(informer.changed());
            match look() {
                CacheReadiness::Read => return Freshness::Current,
                CacheReadiness::Wait(until) if informer.is_running() => {
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = clock.sleep_until(until) => {}
                    }
                }
                // A stopped informer never catches up.
                CacheReadiness::Wait(_) => break Late::Everything,
                CacheReadiness::Late(late) => break late,
                CacheReadiness::Ask => {
                    let _asking = writes.asking.lock().await;
                    // Another reader may have asked meanwhile.
                    if look() == CacheReadiness::Ask
                        && self.ask_version(task, read.namespace()).await.is_err()
                    {
                        break Late::Everything;
                    }
                }
            }
        };
        tracing::debug!(kind = %self.kind(), "cache is behind a write; asking the API server");
        Freshness::Behind(late)
    }

    /// Asks for the version of the collection. All earlier writes come before it.
    async fn ask_version(&self, task: Task<'_>, namespace: Option<&str>) -> Result<(), ClientError> {
        let writes = &self.binding.writes;
        let sent = writes.moment(self.client.clock().now());
        let version = self.collection_version(task, namespace).await?;
        writes.note_version(&Version::new(&version), sent, self.client.clock().now());
        Ok(())
    }
}

impl<'a> Read<'a> {
    fn namespace(self) -> Option<&'a str> {
        match self {
            Self::One(key) => key.namespace(),
            Self::All(namespace) => namespace,
        }
    }
}

/// State of an informer.
struct Informed<'a, K>(&'a SharedInformer<K>);

impl<K: Resource + Send + Sync + 'static> View for Informed<'_, K> {
    fn with<T>(&self, key: &ObjectKey, look: impl FnOnce(Option<&ObjectMeta>) -> T) -> T {
        let object = self.0.indexer().get(key);
        look(object.as_deref().map(Resource::meta))
    }

    fn has_reached(&self, key: &ObjectKey, version: u64) -> bool {
        self.0.has_reached(key, version)
    }

    fn has_reached_in(&self, namespace: Option<&str>, version: u64) -> bool {
        if let Some(namespace) = namespace {
            // A part covers its whole namespace, so any name will do.
            return self.0.has_reached(&ObjectKey::new(namespace, "any"), version);
        }
        let reached = self.0.last_sync_resource_version().and_then(|reached| reached.parse::<u64>().ok());
        reached.is_some_and(|reached| reached >= version)
    }
}

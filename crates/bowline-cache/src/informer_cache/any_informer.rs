//! An informer without its object type, as a cache holds it.

use std::any::Any;
use std::pin::Pin;

use kube::Resource;

use crate::shared_informer::{InformerStats, InformerStatus, NotSynced, SharedInformer};

/// A future that an [`AnyInformer`] returns.
pub(super) type Boxed<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// An informer without its object type.
pub(super) trait AnyInformer: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn name(&self) -> String;
    fn start(&self);
    fn stop(&self) -> Boxed<'_>;
    fn has_synced(&self) -> bool;
    fn synced(&self) -> Boxed<'_>;
    fn not_synced(&self) -> Vec<NotSynced>;
    fn stats(&self) -> InformerStats;
    fn status(&self) -> InformerStatus;
}

impl<K: Resource + Send + Sync + 'static> AnyInformer for SharedInformer<K> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> String {
        self.kind().to_string()
    }

    fn start(&self) {
        self.start();
    }

    fn stop(&self) -> Boxed<'_> {
        Box::pin(self.stop())
    }

    fn has_synced(&self) -> bool {
        self.has_synced()
    }

    fn synced(&self) -> Boxed<'_> {
        Box::pin(self.wait_synced())
    }

    fn not_synced(&self) -> Vec<NotSynced> {
        self.not_synced()
    }

    fn stats(&self) -> InformerStats {
        self.stats()
    }

    fn status(&self) -> InformerStatus {
        self.status()
    }
}

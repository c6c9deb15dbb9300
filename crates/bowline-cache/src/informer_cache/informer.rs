//! Handle of a user of a cache's informer. Owns the end of the informer with its last user.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use tokio_util::sync::CancellationToken;

use super::Inner;
use super::id::Id;
use crate::shared_informer::SharedInformer;

/// A use of a cache's informer, which lives as long as it has one. A clone is the same use.
///
/// When the last one is dropped, the watch ends and handlers receive nothing more, unless the kind is
/// [read](super::InformerCache::get) from the cache or has an [index](super::InformerCache::add_index). Keep the handle
/// beside the code that needs the events.
pub struct InformerHandle<K> {
    pub(super) informer: SharedInformer<K>,
    pub(super) in_use: Arc<Use>,
}

/// One user of an informer, removed on drop.
pub(super) struct Use {
    pub(super) cache: Weak<Inner>,
    pub(super) id: Arc<Id>,
    /// Cancelled if the informer was removed. Another informer may have its id then.
    pub(super) gone: CancellationToken,
}

impl Drop for Use {
    fn drop(&mut self) {
        if let Some(inner) = self.cache.upgrade() {
            inner.leave(&self.id, &self.gone);
        }
    }
}

impl<K> Deref for InformerHandle<K> {
    type Target = SharedInformer<K>;

    fn deref(&self) -> &SharedInformer<K> {
        &self.informer
    }
}

impl<K> Clone for InformerHandle<K> {
    fn clone(&self) -> Self {
        Self { informer: self.informer.clone(), in_use: self.in_use.clone() }
    }
}

impl<K> fmt::Debug for InformerHandle<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InformerHandle").field(&self.in_use.id).finish()
    }
}

//! An informer of a cache in the hands of somebody who uses it. Owns that the last user takes it along.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use tokio_util::sync::CancellationToken;

use super::Inner;
use super::id::Id;
use crate::shared_informer::SharedInformer;

/// An informer of a cache, in use: as long as there is one of these, it is there. A clone is the same use.
///
/// When the last one is dropped, its watch ends and its handlers are told nothing any more, unless somebody
/// [reads](super::InformerCache::get) its kind from the cache or [added an index](super::InformerCache::add_index). So it is
/// kept beside whatever it serves.
pub struct Informer<K> {
    pub(super) informer: SharedInformer<K>,
    pub(super) in_use: Arc<Use>,
}

/// One user of an informer, who leaves by being dropped.
pub(super) struct Use {
    pub(super) cache: Weak<Inner>,
    pub(super) id: Arc<Id>,
    /// Whether it was removed: what has its place now is another.
    pub(super) gone: CancellationToken,
}

impl Drop for Use {
    fn drop(&mut self) {
        if let Some(inner) = self.cache.upgrade() {
            inner.leave(&self.id, &self.gone);
        }
    }
}

impl<K> Deref for Informer<K> {
    type Target = SharedInformer<K>;

    fn deref(&self) -> &SharedInformer<K> {
        &self.informer
    }
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { informer: self.informer.clone(), in_use: self.in_use.clone() }
    }
}

impl<K> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Informer").field(&self.in_use.id).finish()
    }
}

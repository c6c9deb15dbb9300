//! Reading what an informer has, without being able to change it.

use std::fmt;
use std::sync::Arc;

use bowline_machinery::LabelSelector;
use kube::Resource;

use crate::indexer::{IndexError, Indexer};
use bowline_machinery::ObjectKey;

/// The objects of an informer, to read. A clone reads the same; it keeps the objects, but not the informer.
pub struct Lister<K: Resource + Send + Sync + 'static> {
    indexer: Arc<Indexer<K>>,
}

/// The objects of an informer in one namespace.
pub struct NamespaceLister<K: Resource + Send + Sync + 'static> {
    indexer: Arc<Indexer<K>>,
    namespace: String,
}

impl<K: Resource + Send + Sync + 'static> Lister<K> {
    pub(crate) fn new(indexer: Arc<Indexer<K>>) -> Self {
        Self { indexer }
    }

    /// The object of a key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.indexer.get(key)
    }

    /// The objects whose labels match, in the order of their keys.
    #[must_use]
    pub fn list(&self, labels: &LabelSelector) -> Vec<Arc<K>> {
        self.indexer.list_matching(None, labels)
    }

    /// The objects that an index has under a value, in the order of their keys.
    ///
    /// # Errors
    /// When there is no such index.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<K>>, IndexError> {
        self.indexer.by_index(index, value)
    }

    /// Those in one namespace.
    pub fn namespace(&self, namespace: impl Into<String>) -> NamespaceLister<K> {
        NamespaceLister { indexer: self.indexer.clone(), namespace: namespace.into() }
    }
}

impl<K: Resource + Send + Sync + 'static> NamespaceLister<K> {
    /// The object of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<K>> {
        self.indexer.get_in(&self.namespace, name)
    }

    /// The objects whose labels match, in the order of their names.
    #[must_use]
    pub fn list(&self, labels: &LabelSelector) -> Vec<Arc<K>> {
        self.indexer.list_matching(Some(&self.namespace), labels)
    }
}

impl<K: Resource + Send + Sync + 'static> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Self::new(self.indexer.clone())
    }
}

impl<K: Resource + Send + Sync + 'static> fmt::Debug for Lister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister").field("objects", &self.indexer.len()).finish_non_exhaustive()
    }
}

impl<K: Resource + Send + Sync + 'static> fmt::Debug for NamespaceLister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamespaceLister").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

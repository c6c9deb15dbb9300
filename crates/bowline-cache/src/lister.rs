//! Read-only access to the objects of an informer.

use std::fmt;
use std::sync::Arc;

use bowline_machinery::LabelSelector;
use kube::Resource;

use crate::indexer::{IndexError, Indexer};
use bowline_machinery::ObjectKey;

/// The objects of an informer, read-only. A clone reads the same. It keeps the objects alive, but not the informer.
pub struct Lister<K: Resource + Send + Sync + 'static> {
    indexer: Arc<Indexer<K>>,
}

/// The objects of an informer in one namespace, read-only. A clone reads the same.
pub struct NamespaceLister<K: Resource + Send + Sync + 'static> {
    indexer: Arc<Indexer<K>>,
    namespace: String,
}

impl<K: Resource + Send + Sync + 'static> Lister<K> {
    pub(crate) fn new(indexer: Arc<Indexer<K>>) -> Self {
        Self { indexer }
    }

    /// The object with a key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.indexer.get(key)
    }

    /// The objects with matching labels, ordered by key.
    #[must_use]
    pub fn list(&self, labels: &LabelSelector) -> Vec<Arc<K>> {
        self.indexer.list_matching(None, labels)
    }

    /// The objects with a value in an index, ordered by key.
    ///
    /// # Errors
    /// [`IndexError`] if the index does not exist.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<K>>, IndexError> {
        self.indexer.by_index(index, value)
    }

    /// A lister of one namespace.
    pub fn namespace(&self, namespace: impl Into<String>) -> NamespaceLister<K> {
        NamespaceLister { indexer: self.indexer.clone(), namespace: namespace.into() }
    }
}

impl<K: Resource + Send + Sync + 'static> NamespaceLister<K> {
    /// The object with a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<K>> {
        self.indexer.get_in(&self.namespace, name)
    }

    /// The objects with matching labels, ordered by name.
    #[must_use]
    pub fn list(&self, labels: &LabelSelector) -> Vec<Arc<K>> {
        self.indexer.list_matching(Some(&self.namespace), labels)
    }

    /// The objects with a value in an index, ordered by name.
    ///
    /// # Errors
    /// [`IndexError`] if the index does not exist.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<K>>, IndexError> {
        let mut found = self.indexer.by_index(index, value)?;
        found.retain(|object| object.meta().namespace.as_deref().unwrap_or_default() == self.namespace);
        Ok(found)
    }
}

impl<K: Resource + Send + Sync + 'static> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Self::new(self.indexer.clone())
    }
}

impl<K: Resource + Send + Sync + 'static> Clone for NamespaceLister<K> {
    fn clone(&self) -> Self {
        Self { indexer: self.indexer.clone(), namespace: self.namespace.clone() }
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

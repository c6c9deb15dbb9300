//! What a list from the cache is to have.

use std::sync::Arc;

use bowline_machinery::LabelSelector;
use kube::{Resource, ResourceExt as _};

use crate::indexer::{IndexError, Indexer};

/// Which objects a list from the cache is to have: all, unless it is told otherwise.
#[derive(Clone, Debug)]
#[must_use = "a query does nothing until a list is asked for with it"]
pub struct ListQuery {
    namespace: Option<String>,
    labels: LabelSelector,
    indexes: Vec<(String, String)>,
    limit: Option<usize>,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self { namespace: None, labels: LabelSelector::everything(), indexes: Vec::new(), limit: None }
    }
}

impl ListQuery {
    /// All objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only those in a namespace.
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only those with such labels.
    pub fn labels(mut self, labels: LabelSelector) -> Self {
        self.labels = labels;
        self
    }

    /// Only those that an index has under a value. Several have to be true at once.
    pub fn index(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.indexes.push((name.into(), value.into()));
        self
    }

    /// No more than so many: the first ones.
    pub fn limit(mut self, objects: usize) -> Self {
        self.limit = Some(objects);
        self
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(super) fn run<K>(&self, indexer: &Indexer<K>) -> Result<Vec<Arc<K>>, IndexError>
    where
        K: Resource + Send + Sync + 'static,
    {
        let mut found = match self.indexes.split_first() {
            None => indexer.list_matching(self.namespace(), &self.labels),
            Some(((name, value), others)) => {
                // One moment for all of them.
                let snapshot = indexer.snapshot();
                let mut found = snapshot.by_index(name, value)?;
                for (name, value) in others {
                    let keys = snapshot.index_keys(name, value)?;
                    found.retain(|object| keys.binary_search(&crate::key::object_key(&**object)).is_ok());
                }
                found.retain(|object| {
                    let is_there = self
                        .namespace
                        .as_ref()
                        .is_none_or(|namespace| object.meta().namespace.as_ref() == Some(namespace));
                    is_there && (self.labels.is_everything() || self.labels.matches(object.labels()))
                });
                found
            }
        };
        found.truncate(self.limit.unwrap_or(usize::MAX));
        Ok(found)
    }
}

//! What a list from the cache is to have.

use std::sync::Arc;

use bowline_machinery::{FieldSelector, LabelSelector};
use kube::{Resource, ResourceExt as _};

use crate::indexer::{IndexError, Indexer};

/// Which objects a list is to have: all, unless it is told otherwise.
#[derive(Clone, Debug)]
#[must_use = "a query does nothing until a list is asked for with it"]
pub struct ListQuery {
    namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
    indexes: Vec<(String, String)>,
    limit: Option<usize>,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self {
            namespace: None,
            labels: LabelSelector::everything(),
            fields: FieldSelector::default(),
            indexes: Vec::new(),
            limit: None,
        }
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

    /// Only those with such fields. For who asks a server: a cache has indexes instead, and refuses this.
    pub fn fields(mut self, fields: FieldSelector) -> Self {
        self.fields = fields;
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

    /// The namespace that it is limited to.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Which labels are asked for.
    #[must_use]
    pub fn label_selector(&self) -> &LabelSelector {
        &self.labels
    }

    /// Which fields are asked for.
    #[must_use]
    pub fn field_selector(&self) -> &FieldSelector {
        &self.fields
    }

    /// The indexes that are asked for, and the value in each.
    #[must_use]
    pub fn indexes(&self) -> &[(String, String)] {
        &self.indexes
    }

    /// How many objects there may be.
    #[must_use]
    pub fn max_objects(&self) -> Option<usize> {
        self.limit
    }

    /// What it finds in an indexer, in one namespace or (`None`) in all, whatever it says about that itself. Fields are not
    /// looked at.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn run<K>(&self, indexer: &Indexer<K>, namespace: Option<&str>) -> Result<Vec<Arc<K>>, IndexError>
    where
        K: Resource + Send + Sync + 'static,
    {
        let mut found = match self.indexes.split_first() {
            None => indexer.list_matching(namespace, &self.labels),
            Some(((name, value), others)) => {
                // One moment for all of them.
                let snapshot = indexer.snapshot();
                let mut found = snapshot.by_index(name, value)?;
                for (name, value) in others {
                    let keys = snapshot.index_keys(name, value)?;
                    found.retain(|object| keys.binary_search(&crate::key::object_key(&**object)).is_ok());
                }
                found.retain(|object| {
                    let is_there = namespace
                        .is_none_or(|namespace| object.meta().namespace.as_deref() == Some(namespace));
                    is_there && (self.labels.is_everything() || self.labels.matches(object.labels()))
                });
                found
            }
        };
        found.truncate(self.limit.unwrap_or(usize::MAX));
        Ok(found)
    }
}

//! A query for a list or a watch. Owns its selectors, and how a cache evaluates it.

use std::sync::Arc;

use bowline_machinery::{FieldSelector, LabelSelector};
use kube::Resource;

use crate::indexer::{IndexError, Indexer};

/// Which objects a list returns. Default: all.
///
/// A cache and an API server do not select by the same things:
///
/// | part | cache | API server |
/// |---|---|---|
/// | [`in_namespace`](Self::in_namespace), [`labels`](Self::labels), [`limit`](Self::limit) | yes | yes |
/// | [`index`](Self::index) | yes | no |
/// | [`fields`](Self::fields) | no | yes |
/// | [`page_size`](Self::page_size) | ignored | yes |
#[derive(Clone, Debug)]
#[must_use = "a query does nothing until a list uses it"]
pub struct ListQuery {
    namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
    indexes: Vec<(String, String)>,
    limit: Option<usize>,
    page_size: u32,
}

/// Objects on a page of a list from an API server, as in client-go's pager.
const PAGE_SIZE: u32 = 500;

impl Default for ListQuery {
    fn default() -> Self {
        Self {
            namespace: None,
            labels: LabelSelector::everything(),
            fields: FieldSelector::default(),
            indexes: Vec::new(),
            limit: None,
            page_size: PAGE_SIZE,
        }
    }
}

impl ListQuery {
    /// A query for all objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects the objects of one namespace. Default: all namespaces.
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Selects objects by their labels. Default: all objects.
    pub fn labels(mut self, labels: LabelSelector) -> Self {
        self.labels = labels;
        self
    }

    /// Selects objects by fields, which only an API server does: a read from the cache fails, and needs an
    /// [index](Self::index) instead. Default: all objects.
    pub fn fields(mut self, fields: FieldSelector) -> Self {
        self.fields = fields;
        self
    }

    /// Selects the objects to which an index of the cache gives a value. With several indexes, an object has to match each.
    /// A read from the API server fails. Default: all objects.
    pub fn index(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.indexes.push((name.into(), value.into()));
        self
    }

    /// Maximum number of objects. A cache returns the first ones in the order of their keys, an API server the first ones in
    /// its own order. Default: no maximum.
    pub fn limit(mut self, objects: usize) -> Self {
        self.limit = Some(objects);
        self
    }

    /// Maximum number of objects in one response of an API server; longer lists come in several pages. Zero is an error when
    /// the list is sent. Default: 500.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.page_size = objects;
        self
    }

    /// The namespace, if the query is for one.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The label selector.
    #[must_use]
    pub fn label_selector(&self) -> &LabelSelector {
        &self.labels
    }

    /// The field selector.
    #[must_use]
    pub fn field_selector(&self) -> &FieldSelector {
        &self.fields
    }

    /// The names of the indexes, each with the value that objects must have.
    #[must_use]
    pub fn indexes(&self) -> &[(String, String)] {
        &self.indexes
    }

    /// The maximum number of objects.
    #[must_use]
    pub fn max_objects(&self) -> Option<usize> {
        self.limit
    }

    /// The maximum number of objects on a page.
    #[must_use]
    pub fn max_objects_per_page(&self) -> u32 {
        self.page_size
    }

    /// The objects of an indexer that match, in the order of their keys. `namespace` replaces the query's own; the field
    /// selector is ignored. With a [limit](Self::limit), no more objects than that are sorted.
    ///
    /// # Errors
    /// If there is no index of one of the names; the error lists those that exist.
    pub fn run<K>(&self, indexer: &Indexer<K>, namespace: Option<&str>) -> Result<Vec<Arc<K>>, IndexError>
    where
        K: Resource + Send + Sync + 'static,
    {
        indexer.snapshot().select(namespace, &self.labels, &self.indexes, self.limit)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::ResourceExt as _;
    use serde_json::json;

    use super::*;

    fn pods() -> Indexer<Pod> {
        let pods = Indexer::<Pod>::new();
        let node = |pod: &Pod| pod.spec.iter().filter_map(|spec| spec.node_name.clone()).collect();
        pods.add_index("node", node).unwrap();
        let account =
            |pod: &Pod| pod.spec.iter().filter_map(|spec| spec.service_account_name.clone()).collect();
        pods.add_index("account", account).unwrap();
        for number in 0..40 {
            let pod = json!({
                "metadata": {
                    "namespace": if number % 2 == 0 { "even" } else { "odd" },
                    "name": format!("p{number:02}"),
                    "labels": {"third": (number % 3).to_string()},
                },
                "spec": {
                    "nodeName": format!("n{}", number % 4),
                    "serviceAccountName": format!("a{}", number % 5),
                    "containers": [],
                },
            });
            pods.add(serde_json::from_value(pod).unwrap());
        }
        pods
    }

    #[test]
    fn a_limit_keeps_the_first_objects_of_the_same_query() {
        let pods = pods();
        let third = LabelSelector::parse("third=1").unwrap();
        let queries = [
            ListQuery::new(),
            ListQuery::new().labels(third.clone()),
            ListQuery::new().index("node", "n1"),
            ListQuery::new().index("node", "n2").index("account", "a1"),
            ListQuery::new().index("account", "a3").labels(third),
        ];
        for (query, namespace) in
            queries.iter().flat_map(|query| [(query, None), (query, Some("even")), (query, Some("odd"))])
        {
            let all = query.run(&pods, namespace).unwrap();
            let keys: Vec<_> = all.iter().map(|pod| (pod.namespace(), pod.name_any())).collect();
            assert!(keys.is_sorted(), "{keys:?}");
            for limit in [0, 1, 3, all.len(), 100] {
                let found = query.clone().limit(limit).run(&pods, namespace).unwrap();
                assert_eq!(found, all[..limit.min(all.len())], "{query:?} {namespace:?} {limit}");
            }
        }
        let both = ListQuery::new().index("node", "n2").index("account", "a1").run(&pods, None).unwrap();
        let names: Vec<_> = both.iter().map(|pod| pod.name_any()).collect();
        assert_eq!(names, ["p06", "p26"]);
    }

    #[test]
    fn an_unknown_index_is_an_error_that_lists_the_known_ones() {
        for query in
            [ListQuery::new().index("zone", "a"), ListQuery::new().index("node", "n1").index("zone", "a")]
        {
            let error = query.limit(1).run(&pods(), None).unwrap_err().to_string();
            assert!(error.contains("\"zone\"") && error.ends_with("account, namespace, node"), "{error}");
        }
    }
}

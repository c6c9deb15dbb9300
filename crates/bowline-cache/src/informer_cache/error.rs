//! Errors of a cache, each with a remedy.

use crate::indexer::IndexError;
use crate::namespaces::Namespaces;
use crate::shared_informer::{InformerError, SyncError};

/// A read or request that a cache cannot answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The cache was not started or has been stopped, so a wait might never end.
    #[error("the cache is not started, so {kind} cannot be read: call `start` first")]
    NotStarted {
        /// The kind of the read.
        kind: String,
    },
    /// There is no informer, and reads may not create one.
    #[error("there is no informer of {kind}, and the cache is set to fail then: call `get_informer` first")]
    NoInformer {
        /// The kind of the read.
        kind: String,
    },
    /// The namespace is outside those that the options name for the kind. A retry does not help.
    #[error(
        "{kind} in namespace {namespace} is not cached: the cache has {cached}; cache that namespace too, or read it live"
    )]
    NotCached {
        /// The kind of the read.
        kind: String,
        /// The namespace of the read.
        namespace: String,
        /// The cached namespaces.
        cached: String,
    },
    /// The key has no namespace, but the kind is namespaced.
    #[error("{kind} {name} cannot be read without a namespace: the kind is namespaced")]
    NoNamespace {
        /// The kind of the read.
        kind: String,
        /// The name in the key.
        name: String,
    },
    /// The query has a field selector, which only an API server evaluates.
    #[error(
        "{kind} is read from the cache, which has no field selectors: for {fields:?}, add an index with `InformerCache::add_index` and query it with `ListQuery::index`, or read with `Client::live`"
    )]
    Fields {
        /// The kind of the read.
        kind: String,
        /// The field selector.
        fields: String,
    },
    /// The informer was removed during the wait for its sync.
    #[error("the informer of {kind} was removed before it had synced")]
    Removed {
        /// The kind of the read.
        kind: String,
    },
    /// The informer did not sync in time.
    #[error(transparent)]
    NotSynced(#[from] SyncError),
    /// The index does not exist, or exists already.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The informer cannot be built.
    #[error(transparent)]
    Informer(#[from] InformerError),
    /// Namespaces were given for a cluster-scoped kind.
    #[error("{kind} are cluster-scoped, but were limited to {namespaces}: remove the namespaces")]
    ClusterScoped {
        /// The kind.
        kind: String,
        /// The given namespaces.
        namespaces: String,
    },
    /// A namespace has an empty name.
    #[error(
        "an informer of {kind} was requested for a namespace with an empty name: for all, use `Namespaces::All`"
    )]
    EmptyNamespace {
        /// The kind.
        kind: String,
    },
    /// The selector is invalid, so that the server would always refuse it.
    #[error("the {selector_kind} selector {selector:?} for {kind} in {namespaces} cannot be used: {problem}")]
    Selector {
        /// The kind.
        kind: String,
        /// The namespaces that it is for.
        namespaces: Namespaces,
        /// `label` or `field`.
        selector_kind: &'static str,
        /// The selector.
        selector: String,
        /// Problem, in Kubernetes' words.
        problem: String,
    },
}

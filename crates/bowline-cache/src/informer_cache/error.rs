//! Why a cache cannot answer, in words that say what to do about it.

use crate::indexer::IndexError;
use crate::namespaces::Namespaces;
use crate::shared_informer::{InformerError, SyncError};

/// Why a cache cannot answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// Nobody started the cache, or it was stopped, so that waiting for it might never end.
    #[error("the cache is not started, so {kind} cannot be read: call `start` first")]
    NotStarted {
        /// What was to be read.
        kind: String,
    },
    /// There is no informer, and none may be made.
    #[error(
        "there is no informer of {kind}, and the cache was told to fail then: ask for one with `get_informer` first"
    )]
    NoInformer {
        /// What was to be read.
        kind: String,
    },
    /// What was asked for is outside what is cached.
    #[error("{kind} in namespace {namespace} is not cached: the cache has {cached}")]
    NotCached {
        /// What was to be read.
        kind: String,
        /// Where.
        namespace: String,
        /// What is cached of it.
        cached: String,
    },
    /// The objects of the kind are in namespaces, and the key names none.
    #[error("{kind} {name} cannot be looked for without a namespace: objects of this kind are in namespaces")]
    NoNamespace {
        /// What was to be read.
        kind: String,
        /// The name in the key.
        name: String,
    },
    /// Fields were asked for, which only a server knows.
    #[error(
        "{kind} cannot be listed from the cache by fields ({fields}): add an index with `add_index`, or ask the server"
    )]
    Fields {
        /// What was to be read.
        kind: String,
        /// The field selector.
        fields: String,
    },
    /// The informer was removed while somebody waited for it.
    #[error("the informer of {kind} was removed while it was waited for")]
    Removed {
        /// What was to be read.
        kind: String,
    },
    /// The informer was not in sync in time.
    #[error(transparent)]
    NotSynced(#[from] SyncError),
    /// There is no such index, or there is one already.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The informer cannot be made.
    #[error(transparent)]
    Informer(#[from] InformerError),
    /// Namespaces were given for a kind whose objects are in none.
    #[error("{kind} are in no namespace, but were limited to {namespaces}: leave the namespaces out")]
    ClusterScoped {
        /// The kind.
        kind: String,
        /// What it was limited to.
        namespaces: String,
    },
    /// A namespace without a name.
    #[error(
        "an informer of {kind} was asked for in a namespace with an empty name: use `Namespaces::All` for all"
    )]
    EmptyNamespace {
        /// The kind.
        kind: String,
    },
    /// What the server is to select by is no selector: it would refuse it again and again.
    #[error("the {selector_kind} selector {selector:?} for {kind} in {namespaces} cannot be used: {problem}")]
    Selector {
        /// The kind.
        kind: String,
        /// Where it was to be used.
        namespaces: Namespaces,
        /// `label` or `field`.
        selector_kind: &'static str,
        /// The selector.
        selector: String,
        /// What is wrong with it, in the words of Kubernetes.
        problem: String,
    },
}

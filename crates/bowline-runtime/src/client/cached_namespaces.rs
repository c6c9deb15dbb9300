//! The namespaces that a client reads from the cache.

use std::collections::BTreeSet;
use std::fmt;

/// The namespaces that a client reads from the cache for a kind; from
/// [`Client::cached_namespaces`](crate::Client::cached_namespaces).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CachedNamespaces {
    /// None: reads of the kind ask the API server.
    None,
    /// All of them. A cluster-scoped kind that is cached is always this.
    All,
    /// These. Reads of other namespaces are an error, [`CacheError::NotCached`](bowline_cache::CacheError::NotCached).
    Only(BTreeSet<String>),
}

impl CachedNamespaces {
    /// Whether a namespace is one of them.
    #[must_use]
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Only(names) => names.contains(namespace),
        }
    }
}

/// `none`, `all`, or the names: `team-a, team-b`.
impl fmt::Display for CachedNamespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::All => f.write_str("all"),
            Self::Only(names) => {
                f.write_str(&names.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

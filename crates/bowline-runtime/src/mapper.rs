//! Where objects of a kind are served: from a kind to its resource and back.

mod discovery;

use std::pin::Pin;

use bowline_cache::Kind;
use bowline_machinery::{GroupKind, GroupVersionKind, GroupVersionResource};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};

use crate::BoxError;
pub use discovery::DiscoveryMapper;

/// Where objects of a kind are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestMapping {
    /// Group, version, kind and plural.
    pub resource: ApiResource,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

/// A future that a [`RestMapper`] returns.
pub type MapperFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, MapperError>> + Send + 'a>>;

/// Knows where objects of a kind are served, and of which kind the objects of a resource are.
pub trait RestMapper: Send + Sync + 'static {
    /// Where objects of a kind are served.
    fn mapping<'a>(&'a self, kind: &'a GroupVersionKind) -> MapperFuture<'a, RestMapping>;

    /// Where objects of a kind are served, in each version that there is; the one that the server prefers comes first.
    /// Never empty.
    fn mappings<'a>(&'a self, kind: &'a GroupKind) -> MapperFuture<'a, Vec<RestMapping>>;

    /// Of which kind the objects of a resource are.
    fn mapping_of<'a>(&'a self, resource: &'a GroupVersionResource) -> MapperFuture<'a, RestMapping>;
}

/// Why it is not known where objects are served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapperError {
    /// There is no such kind.
    #[error("the API server has no kind {0}: is its custom resource definition installed?")]
    NoKind(String),
    /// There is no such resource.
    #[error("the API server has no resource {0}: is its custom resource definition installed?")]
    NoResource(String),
    /// The server did not say what it has.
    #[error("the API server did not say which kinds it has: {}", crate::error::describe(&**.0))]
    Discovery(#[source] BoxError),
}

impl MapperError {
    /// Whether there is no such kind or resource.
    #[must_use]
    pub fn is_no_match(&self) -> bool {
        matches!(self, Self::NoKind(_) | Self::NoResource(_))
    }

    /// Whether the very same may succeed later: a server that could not be asked, or a kind that may be installed yet.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        true
    }
}

impl RestMapping {
    /// The kind as such, of objects as trees.
    #[must_use]
    pub fn dynamic(&self) -> Kind<DynamicObject> {
        Kind::dynamic(self.resource.clone(), self.namespaced)
    }

    /// The kind as such, of the metadata of objects.
    #[must_use]
    pub fn metadata(&self) -> Kind<PartialObjectMeta<DynamicObject>> {
        Kind::metadata_of(self.resource.clone(), self.namespaced)
    }

    /// Group, version and kind.
    #[must_use]
    pub fn kind(&self) -> GroupVersionKind {
        GroupVersionKind::new(&self.resource.group, &self.resource.version, &self.resource.kind)
    }
}

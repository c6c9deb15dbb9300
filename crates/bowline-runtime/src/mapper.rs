//! The mapping from kinds to resources and back.

mod discovery;

use std::pin::Pin;

use bowline_cache::Kind;
use bowline_machinery::{GroupKind, GroupVersionKind, GroupVersionResource};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};

use crate::BoxError;
pub use discovery::DiscoveryMapper;

/// The resource of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestMapping {
    /// Group, version, kind and plural.
    pub resource: ApiResource,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

/// A future that a [`RestMapper`] returns.
pub type MapperFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, MapperError>> + Send + 'a>>;

/// Maps kinds to resources and back.
pub trait RestMapper: Send + Sync + 'static {
    /// The resource of a kind.
    fn mapping<'a>(&'a self, kind: &'a GroupVersionKind) -> MapperFuture<'a, RestMapping>;

    /// The resource of a kind in each served version, the preferred version first. Never empty.
    fn mappings<'a>(&'a self, kind: &'a GroupKind) -> MapperFuture<'a, Vec<RestMapping>>;

    /// The kind of a resource, with its mapping.
    fn mapping_of<'a>(&'a self, resource: &'a GroupVersionResource) -> MapperFuture<'a, RestMapping>;
}

/// A mapping cannot be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapperError {
    /// The kind does not exist.
    #[error("the API server has no kind {0}: is its custom resource definition installed?")]
    NoKind(String),
    /// The resource does not exist.
    #[error("the API server has no resource {0}: is its custom resource definition installed?")]
    NoResource(String),
    /// Discovery failed.
    #[error("cannot discover the kinds of the API server: {}", crate::error::describe(&**.0))]
    Discovery(#[source] BoxError),
}

impl MapperError {
    /// Whether the kind or resource does not exist.
    #[must_use]
    pub fn is_no_match(&self) -> bool {
        matches!(self, Self::NoKind(_) | Self::NoResource(_))
    }

    /// Whether a retry may succeed: discovery failed, or the kind may be installed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        true
    }
}

impl RestMapping {
    /// The kind with objects as JSON trees.
    #[must_use]
    pub fn dynamic(&self) -> Kind<DynamicObject> {
        Kind::dynamic(self.resource.clone(), self.namespaced)
    }

    /// The kind with only the metadata of objects.
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

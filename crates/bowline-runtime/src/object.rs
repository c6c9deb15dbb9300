//! Objects and their containers.

use std::sync::Arc;

use kube::Resource;

use crate::Ensured;

/// A `K`, or a container of one: an `Arc<K>`, which reconcilers get, or an [`Ensured<K>`](Ensured).
///
/// Functions that only read an object accept this, so that `&foo` works with all of them. Authors need neither call nor
/// implement it.
pub trait AsObject<K> {
    /// The object.
    fn as_object(&self) -> &K;
}

impl<K: Resource> AsObject<K> for K {
    fn as_object(&self) -> &K {
        self
    }
}

impl<K: Resource> AsObject<K> for Arc<K> {
    fn as_object(&self) -> &K {
        self
    }
}

impl<K: Resource> AsObject<K> for Ensured<K> {
    fn as_object(&self) -> &K {
        self
    }
}

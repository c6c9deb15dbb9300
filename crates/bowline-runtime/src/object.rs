//! Objects, and what holds them.

use std::sync::Arc;

use kube::Resource;

use crate::Ensured;

/// A `K`, or what holds one: an `Arc<K>`, as a reconciler is given it, or an [`Ensured<K>`](Ensured).
///
/// It is what functions ask for that only read an object, so that `&foo` does for all of them. Nothing is to be called, and
/// nothing to be implemented.
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

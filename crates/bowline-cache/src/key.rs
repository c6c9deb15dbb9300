//! Keys of objects.

use bowline_machinery::ObjectKey;

/// The key of an object, from its metadata. An object without a name has an empty one.
#[must_use]
pub fn object_key<K: kube::Resource>(object: &K) -> ObjectKey {
    let meta = object.meta();
    ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

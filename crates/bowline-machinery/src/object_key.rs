//! Namespace and name of an object, the key of queues and caches.

use std::fmt;
use std::str::FromStr;

use compact_str::CompactString;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::quote::quoted;

/// The namespace and name of an object, or only the name of a cluster-scoped one.
///
/// Written `namespace/name` or `name`, also in JSON. Ordered by namespace, then by name; cluster-scoped objects come
/// first. A key takes 48 bytes, and allocates only for parts longer than 24 bytes, since work queues hold many.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Empty for a cluster-scoped object.
    namespace: CompactString,
    name: CompactString,
}

/// The text is not an [`ObjectKey`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected key format: {}", quoted(.text))]
pub struct ObjectKeyError {
    text: String,
}

impl ObjectKey {
    /// The key of an object in a namespace. An empty namespace means a cluster-scoped object.
    ///
    /// Nothing is validated: names that a server returned contain no slash.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: CompactString::new(namespace), name: CompactString::new(name) }
    }

    /// The key of a cluster-scoped object.
    #[must_use]
    pub fn cluster_scoped(name: &str) -> Self {
        Self::new("", name)
    }

    /// The namespace, if there is one.
    #[must_use]
    #[inline]
    pub fn namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(&self.namespace)
    }

    /// The name.
    #[must_use]
    #[inline]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl ObjectKeyError {
    /// The text that is not a key.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace() {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl FromStr for ObjectKey {
    type Err = ObjectKeyError;

    /// # Errors
    /// If the text has more than one slash, or an empty part: `/name` is not the same as `name`.
    fn from_str(text: &str) -> Result<Self, ObjectKeyError> {
        let key = match text.split_once('/') {
            Some((namespace, name)) => (!namespace.is_empty()).then(|| Self::new(namespace, name)),
            None => Some(Self::cluster_scoped(text)),
        };
        key.filter(|key| !key.name.is_empty() && !key.name.contains('/'))
            .ok_or_else(|| ObjectKeyError { text: text.to_owned() })
    }
}

impl Serialize for ObjectKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = ObjectKey;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object's key, \"namespace/name\" or \"name\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ObjectKey, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_written_and_read_as_its_parts() {
        for (key, text) in [(ObjectKey::new("a", "b"), "a/b"), (ObjectKey::cluster_scoped("b"), "b")] {
            assert_eq!(key.to_string(), text);
            assert_eq!(text.parse(), Ok(key.clone()));
            let json = serde_json::to_string(&key).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<ObjectKey>(&json).unwrap(), key);
        }
        assert_eq!(ObjectKey::new("a", "b").namespace(), Some("a"));
        assert_eq!(ObjectKey::new("", "b"), ObjectKey::cluster_scoped("b"));
        assert_eq!(ObjectKey::cluster_scoped("b").namespace(), None);
    }

    #[test]
    fn an_invalid_key_gets_the_message_of_client_go() {
        for text in ["", "/", "/x", "x/", "a/b/c", "a//c", "//"] {
            let error = text.parse::<ObjectKey>().unwrap_err();
            assert_eq!(error.to_string(), format!("unexpected key format: \"{text}\""));
            assert_eq!(error.text(), text);
            assert!(serde_json::from_str::<ObjectKey>(&format!("\"{text}\"")).is_err());
        }
    }

    #[test]
    fn keys_are_ordered_by_namespace_then_name_not_by_their_text() {
        let mut keys = [ObjectKey::new("a", "z"), ObjectKey::new("a-b", "a"), ObjectKey::cluster_scoped("z")];
        keys.sort();
        assert_eq!(keys.map(|key| key.to_string()), ["z", "a/z", "a-b/a"]);
    }

    #[test]
    fn a_key_is_48_bytes_and_short_parts_are_inside_it() {
        assert_eq!(size_of::<ObjectKey>(), 48);
        let key = ObjectKey::new(&"n".repeat(24), &"m".repeat(25));
        assert!(!key.namespace.is_heap_allocated());
        assert!(key.name.is_heap_allocated());
    }
}

//! What an object is called inside its kind: namespace and name, as a value that queues and caches are keyed by.

use std::fmt;
use std::str::FromStr;

use compact_str::CompactString;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::quote::quoted;

/// The namespace and the name of an object, or only the name of one that is cluster-scoped.
///
/// Written `namespace/name` or `name`, in JSON too. Ordered by namespace, then by name; what is cluster-scoped comes
/// first. It is 48 bytes, and owns memory beyond them only for parts longer than 24 bytes: work queues hold many.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Empty for what is cluster-scoped.
    namespace: CompactString,
    name: CompactString,
}

/// Why a text is no [`ObjectKey`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected key format: {}", quoted(.text))]
pub struct ObjectKeyError {
    text: String,
}

impl ObjectKey {
    /// The key of an object in a namespace; an empty namespace is that of a cluster-scoped object.
    ///
    /// Nothing is validated: a server has seen to it that neither part holds a slash.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: CompactString::new(namespace), name: CompactString::new(name) }
    }

    /// The key of a cluster-scoped object.
    #[must_use]
    pub fn cluster(name: &str) -> Self {
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
    /// The text that is no key.
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
    /// If there is more than one slash, or if a part is empty: `/name` is no way to say `name`.
    fn from_str(text: &str) -> Result<Self, ObjectKeyError> {
        let key = match text.split_once('/') {
            Some((namespace, name)) => (!namespace.is_empty()).then(|| Self::new(namespace, name)),
            None => Some(Self::cluster(text)),
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
        for (key, text) in [(ObjectKey::new("a", "b"), "a/b"), (ObjectKey::cluster("b"), "b")] {
            assert_eq!(key.to_string(), text);
            assert_eq!(text.parse(), Ok(key.clone()));
            let json = serde_json::to_string(&key).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<ObjectKey>(&json).unwrap(), key);
        }
        assert_eq!(ObjectKey::new("a", "b").namespace(), Some("a"));
        assert_eq!(ObjectKey::new("", "b"), ObjectKey::cluster("b"));
        assert_eq!(ObjectKey::cluster("b").namespace(), None);
    }

    #[test]
    fn what_is_no_key_is_named_in_the_words_of_client_go() {
        for text in ["", "/", "/x", "x/", "a/b/c", "a//c", "//"] {
            let error = text.parse::<ObjectKey>().unwrap_err();
            assert_eq!(error.to_string(), format!("unexpected key format: \"{text}\""));
            assert_eq!(error.text(), text);
            assert!(serde_json::from_str::<ObjectKey>(&format!("\"{text}\"")).is_err());
        }
    }

    #[test]
    fn keys_are_ordered_by_namespace_then_name_not_by_their_text() {
        let mut keys = [ObjectKey::new("a", "z"), ObjectKey::new("a-b", "a"), ObjectKey::cluster("z")];
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

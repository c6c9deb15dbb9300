//! Patches of objects, in the types that a server accepts.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::write_answers::Sent;

const JSON_PATCH: &str = "application/json-patch+json";

/// A change of an object.
///
/// ```
/// use bowline_runtime::Patch;
/// use serde_json::json;
///
/// let old = json!({"metadata": {"name": "a", "resourceVersion": "7"}, "spec": {"replicas": 1, "paused": true}});
/// let new = json!({"metadata": {"name": "a", "resourceVersion": "7"}, "spec": {"replicas": 2}});
/// let patch = Patch::merge_from(&old, &new)?;
/// assert_eq!(patch.body(), br#"{"spec":{"paused":null,"replicas":2}}"#);
/// assert!(Patch::merge_from(&old, &old)?.is_empty());
/// # Ok::<(), bowline_runtime::PatchError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    kind: PatchKind,
    body: Bytes,
}

/// The type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PatchKind {
    /// A JSON patch: a list of operations (RFC 6902).
    Json,
    /// A merge patch: the fields that change, `null` to remove one (RFC 7386). Lists are replaced.
    Merge,
    /// A strategic merge patch: lists are merged by their keys. Not for custom resources.
    Strategic,
}

/// A patch that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// A value cannot be written as JSON.
    #[error("a patch cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The object has no resource version.
    #[error(
        "an optimistic lock needs `metadata.resourceVersion`, and the object has none: read it from the server"
    )]
    NoVersion,
}

impl Patch {
    /// A JSON patch from a list of operations.
    ///
    /// # Errors
    /// When it cannot be encoded as JSON.
    pub fn json(operations: &impl Serialize) -> Result<Self, PatchError> {
        Ok(Self { kind: PatchKind::Json, body: serde_json::to_vec(operations)?.into() })
    }

    /// A merge patch from the fields that change. Lists are replaced.
    ///
    /// # Errors
    /// When it cannot be encoded as JSON.
    pub fn merge(fields: &impl Serialize) -> Result<Self, PatchError> {
        Ok(Self { kind: PatchKind::Merge, body: serde_json::to_vec(fields)?.into() })
    }

    /// A strategic merge patch from the fields that change.
    ///
    /// # Errors
    /// When it cannot be encoded as JSON.
    pub fn strategic(fields: &impl Serialize) -> Result<Self, PatchError> {
        Ok(Self { kind: PatchKind::Strategic, body: serde_json::to_vec(fields)?.into() })
    }

    /// The merge patch from `old` to `new`. Concurrent changes of other fields stay. Lists that differ are replaced, so that
    /// concurrent changes in them are lost: use [`merge_from_locked`](Self::merge_from_locked) for these.
    ///
    /// # Errors
    /// When one of them cannot be encoded as JSON.
    pub fn merge_from<T: Serialize>(old: &T, new: &T) -> Result<Self, PatchError> {
        let patch = difference(serde_json::to_value(old)?, serde_json::to_value(new)?);
        Self::merge(&patch.unwrap_or_else(|| Value::Object(Map::new())))
    }

    /// As [`merge_from`](Self::merge_from), but it is a conflict if the object has another resource version than `old`.
    ///
    /// # Errors
    /// When `old` has no resourceVersion, or one of them cannot be encoded as JSON.
    pub fn merge_from_locked<T: Serialize>(old: &T, new: &T) -> Result<Self, PatchError> {
        let old = serde_json::to_value(old)?;
        let version = match &old["metadata"]["resourceVersion"] {
            Value::String(version) if !version.is_empty() => version.clone(),
            _ => return Err(PatchError::NoVersion),
        };
        let mut patch =
            difference(old, serde_json::to_value(new)?).unwrap_or_else(|| Value::Object(Map::new()));
        patch["metadata"]["resourceVersion"] = Value::String(version);
        Self::merge(&patch)
    }

    /// The type of the patch.
    #[must_use]
    pub fn kind(&self) -> PatchKind {
        self.kind
    }

    /// The JSON of the patch.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    pub(super) fn shared_body(&self) -> Bytes {
        self.body.clone()
    }

    /// The version of the object that the patch requires.
    pub(super) fn lock(&self) -> Lock {
        Lock::read(self.content_type(), &self.body)
    }

    /// Whether it changes nothing and need not be sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(&*self.body, b"{}" | b"[]")
    }

    pub(super) fn content_type(&self) -> &'static str {
        match self.kind {
            PatchKind::Json => JSON_PATCH,
            PatchKind::Merge => "application/merge-patch+json",
            PatchKind::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

/// The uid and resource version that a patch requires.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Lock {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Lock {
    /// The lock in the metadata of a body. A list of operations has none.
    pub(super) fn read(content_type: &str, body: &[u8]) -> Self {
        if content_type == JSON_PATCH {
            return Self::default();
        }
        serde_json::from_slice::<Locked>(body).map(|locked| locked.metadata).unwrap_or_default()
    }

    pub(super) fn sent(&self) -> Sent<'_> {
        Sent { uid: self.uid.as_deref(), version: self.resource_version.as_deref() }
    }
}

#[derive(Deserialize)]
struct Locked {
    metadata: Lock,
}

/// The merge patch from one value to the other; `None` if they are equal.
pub(super) fn difference(old: Value, new: Value) -> Option<Value> {
    match (old, new) {
        (Value::Object(mut old), Value::Object(new)) => {
            let mut patch = Map::new();
            for (key, new) in new {
                match old.remove(&key) {
                    Some(old) => {
                        if let Some(change) = difference(old, new) {
                            patch.insert(key, change);
                        }
                    }
                    // A new `null` is skipped: in a merge it would remove a field that does not exist.
                    None if new.is_null() => {}
                    None => {
                        patch.insert(key, new);
                    }
                }
            }
            patch
                .extend(old.into_iter().filter(|(_, old)| !old.is_null()).map(|(key, _)| (key, Value::Null)));
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (old, new) if old == new => None,
        (_, new) => Some(new),
    }
}

#[cfg(test)]
mod tests {
    use bowline_machinery::MergePatch;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(1)),
            Just(json!("x")),
            Just(json!(true)),
            Just(json!([1, 2])),
            Just(json!([])),
            Just(json!({}))
        ];
        let inner = leaf.prop_recursive(3, 16, 4, |inner| {
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect()))
        });
        prop::collection::btree_map("[a-d]", inner, 0..4)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn a_merge_from_makes_the_new_of_the_old(old in tree(), new in tree()) {
            let patch = Patch::merge_from(&old, &new).unwrap();
            let merged = MergePatch::parse(patch.body()).unwrap().apply(&old);
            prop_assert_eq!(&merged, &new);
            prop_assert_eq!(patch.is_empty(), old == new);
        }
    }

    #[test]
    fn a_lock_is_the_version_that_was_read() {
        let old = json!({"metadata": {"name": "a", "resourceVersion": "7"}, "data": {"x": "1"}});
        let new = json!({"metadata": {"name": "a", "resourceVersion": "9"}, "data": {"x": "2"}});
        let patch = Patch::merge_from_locked(&old, &new).unwrap();
        assert_eq!(patch.body(), br#"{"data":{"x":"2"},"metadata":{"resourceVersion":"7"}}"#);
        let unknown = json!({"metadata": {"name": "a"}});
        assert!(matches!(Patch::merge_from_locked(&unknown, &new), Err(PatchError::NoVersion)));
    }

    #[test]
    fn each_way_of_writing_has_its_media_type() {
        let all = [
            (Patch::json(&json!([])), "application/json-patch+json"),
            (Patch::merge(&json!({})), "application/merge-patch+json"),
            (Patch::strategic(&json!({})), "application/strategic-merge-patch+json"),
        ];
        for (patch, media_type) in all {
            assert_eq!(patch.unwrap().content_type(), media_type);
        }
    }
}

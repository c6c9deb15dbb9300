//! Patches: what is to change in an object, in one of the ways that a server understands.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::read_your_writes::Sent;

const JSON_PATCH: &str = "application/json-patch+json";

/// What is to change in an object.
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

/// The ways in which a patch can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PatchKind {
    /// Operations, one after the other (RFC 6902).
    Json,
    /// The fields that change, `null` for those that go (RFC 7386). Lists are replaced.
    Merge,
    /// As a merge, but lists are merged as their fields say. Not known for custom resources.
    Strategic,
}

/// Why something cannot be made into a patch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// It cannot be written as JSON.
    #[error("a patch cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The object has no version that a server could compare.
    #[error(
        "an optimistic lock needs `metadata.resourceVersion` of the object that was read, which it has not"
    )]
    NoVersion,
}

impl Patch {
    /// Operations, one after the other: a list of them.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn json(operations: &impl Serialize) -> Result<Self, PatchError> {
        Ok(Self { kind: PatchKind::Json, body: serde_json::to_vec(operations)?.into() })
    }

    /// The fields that change. Lists are replaced.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn merge(fields: &impl Serialize) -> Result<Self, PatchError> {
        Ok(Self { kind: PatchKind::Merge, body: serde_json::to_vec(fields)?.into() })
    }

    /// The fields that change. Lists are merged where their fields say so.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn strategic(fields: &impl Serialize) -> Result<Self, PatchError> {
        Ok(Self { kind: PatchKind::Strategic, body: serde_json::to_vec(fields)?.into() })
    }

    /// What makes `new` of `old`, as a merge. Changes that others made meanwhile to other fields stay; lists that differ are
    /// replaced, so that what others added to them is lost: use [`merge_from_locked`](Self::merge_from_locked) then.
    ///
    /// # Errors
    /// When they cannot be written as JSON.
    pub fn merge_from<T: Serialize>(old: &T, new: &T) -> Result<Self, PatchError> {
        let patch = difference(serde_json::to_value(old)?, serde_json::to_value(new)?);
        Self::merge(&patch.unwrap_or_else(|| Value::Object(Map::new())))
    }

    /// As [`merge_from`](Self::merge_from), but the server refuses it with a conflict if the object is no longer the version
    /// that `old` is.
    ///
    /// # Errors
    /// When `old` has no version, or they cannot be written as JSON.
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

    /// How it is written.
    #[must_use]
    pub fn kind(&self) -> PatchKind {
        self.kind
    }

    /// As it is sent.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    pub(super) fn shared_body(&self) -> Bytes {
        self.body.clone()
    }

    /// Which object it is for, as far as it says so.
    pub(super) fn lock(&self) -> Lock {
        Lock::read(self.content_type(), &self.body)
    }

    /// Whether it changes nothing, so that it need not be sent.
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

/// Which object a patch is for: a server refuses it if there is another by now.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Lock {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Lock {
    /// What is sent names it in its metadata, unless it is a list of operations.
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

/// The merge that makes one of the other; none if they are the same.
fn difference(old: Value, new: Value) -> Option<Value> {
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
                    // A `null` that is new says nothing: in a merge it would be a removal of what is not there.
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

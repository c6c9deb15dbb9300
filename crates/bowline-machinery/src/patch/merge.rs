//! Merge patches: partial objects, where `null` removes a field.

use serde_json::map::Entry;
use serde_json::{Map, Value};

use super::{PatchError, mistyped};
use crate::MAX_JSON_DEPTH;
use crate::json::{ParsedJson, is_nested_within, parse_json};

/// Fields to set and fields to remove.
///
/// As in kube-apiserver, nulls inside the objects of a new list are dropped too, which RFC 7386 would keep.
#[derive(Clone, Debug, PartialEq)]
pub struct MergePatch {
    patch: Value,
}

impl MergePatch {
    /// Parses a patch: `fieldValidation=Ignore`.
    ///
    /// # Errors
    /// If it is neither an object nor a list.
    pub fn parse(text: &[u8]) -> Result<Self, PatchError> {
        match parse_json(text) {
            Ok(parsed) => Self::from_value(parsed.value),
            Err(_) => Err(invalid()),
        }
    }

    /// Parses a patch strictly: `fieldValidation=Warn`, the default, or `Strict`. Also returns the warnings or strict
    /// errors: duplicate fields.
    ///
    /// # Errors
    /// If it is not an object.
    pub fn parse_strict(text: &[u8]) -> Result<(Self, Vec<String>), PatchError> {
        let ParsedJson { value, duplicates } = parse_json(text).map_err(PatchError::undecodable)?;
        if !(value.is_object() || value.is_null()) {
            return Err(PatchError::undecodable(mistyped(&value, "value of type map[string]interface {}")));
        }
        Ok((Self::from_value(value)?, duplicates))
    }

    /// A patch from its value.
    ///
    /// # Errors
    /// If it is neither an object nor a list, or nested deeper than [`MAX_JSON_DEPTH`].
    pub fn from_value(patch: Value) -> Result<Self, PatchError> {
        if !is_nested_within(&patch, MAX_JSON_DEPTH) {
            let message = format!("a patch must not be nested more than {MAX_JSON_DEPTH} levels deep");
            return Err(PatchError::malformed(message));
        }
        if patch.is_object() || patch.is_array() { Ok(Self { patch }) } else { Err(invalid()) }
    }

    /// Returns the patched object. A patch that is a list replaces the object.
    ///
    /// The result is at most as deep as the deeper one of object and patch, since the patch's values keep their level.
    #[must_use]
    pub fn apply(&self, object: &Value) -> Value {
        let mut result = object.clone();
        if result.is_object() && self.patch.is_object() {
            merge(&mut result, self.patch.clone());
        } else {
            result = self.patch.clone();
            prune(&mut result);
        }
        result
    }
}

fn invalid() -> PatchError {
    PatchError::malformed("Invalid JSON Patch")
}

/// Recurses as deep as the patch is nested.
fn merge(current: &mut Value, mut patch: Value) {
    match (current, &mut patch) {
        (Value::Object(current), Value::Object(patch)) => merge_objects(current, std::mem::take(patch)),
        // A list that replaces an object keeps its nulls.
        (current @ Value::Object(_), _) => *current = patch,
        (current, _) => {
            prune(&mut patch);
            *current = patch;
        }
    }
}

fn merge_objects(current: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (field, mut value) in patch {
        match current.entry(field) {
            Entry::Vacant(_) if value.is_null() => {}
            Entry::Vacant(entry) => {
                prune(&mut value);
                entry.insert(value);
            }
            Entry::Occupied(entry) if value.is_null() => {
                entry.remove();
            }
            Entry::Occupied(entry) => merge(entry.into_mut(), value),
        }
    }
}

/// Drops the nulls of objects, also of those inside lists.
fn prune(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, value| !value.is_null());
            object.values_mut().for_each(prune);
        }
        Value::Array(list) => list.iter_mut().for_each(prune),
        _ => {}
    }
}

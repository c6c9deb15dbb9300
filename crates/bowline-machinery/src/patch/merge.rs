//! A merge patch: a part of an object, in which `null` removes.

use serde_json::map::Entry;
use serde_json::{Map, Value};

use super::{PatchError, mistyped};
use crate::MAX_JSON_DEPTH;
use crate::json::{ParsedJson, is_nested_within, parse_json};

/// Fields to set, and fields to remove.
///
/// As in kube-apiserver, nulls inside the objects of a new list are left out too, which RFC 7386 would keep.
#[derive(Clone, Debug, PartialEq)]
pub struct MergePatch {
    patch: Value,
}

impl MergePatch {
    /// Reads a patch: `fieldValidation=Ignore`.
    ///
    /// # Errors
    /// If it is neither an object nor a list.
    pub fn parse(text: &[u8]) -> Result<Self, PatchError> {
        match parse_json(text) {
            Ok(parsed) => Self::from_value(parsed.value),
            Err(_) => Err(invalid()),
        }
    }

    /// Reads a patch strictly: `fieldValidation=Warn`, which is the default, or `Strict`. Also gives what to warn of or
    /// to refuse: fields that are there twice.
    ///
    /// # Errors
    /// If it is no object.
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

    /// The object as the patch leaves it. A patch that is a list takes the object's place.
    ///
    /// It is as deep as the object or the patch, whichever is deeper: what a patch sets is as far down as in the patch.
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

/// As deep as the patch may be nested.
fn merge(current: &mut Value, mut patch: Value) {
    match (current, &mut patch) {
        (Value::Object(current), Value::Object(patch)) => merge_objects(current, std::mem::take(patch)),
        // A list that takes an object's place keeps its nulls.
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

/// Leaves out the nulls of objects, also of those inside lists.
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

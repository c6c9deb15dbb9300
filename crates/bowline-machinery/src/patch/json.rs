//! JSON patches: parsed, validated, and applied operation by operation.

use serde_json::{Map, Value};

use super::operation::{Document, Refusal};
use super::{MAX_JSON_PATCH_COPY, MAX_JSON_PATCH_OPERATIONS, PatchError, mistyped};
use crate::json::{ParsedJson, parse_json};
use crate::quote::quoted;

/// A list of operations, applied all or none.
///
/// As in kube-apiserver, an operation is validated only when it is applied, so that an earlier failure hides later
/// errors. Deviations from RFC 6902: negative indexes count from the end; `replace` adds a missing field; `copy` of a
/// missing field gives `null`; an absent value is `null`; text before the first slash of a path is ignored.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch {
    operations: Vec<Map<String, Value>>,
}

impl JsonPatch {
    /// Parses a patch and ignores unknown fields of its operations: `fieldValidation=Ignore`.
    ///
    /// # Errors
    /// If it is not a list of objects, or longer than [`MAX_JSON_PATCH_OPERATIONS`].
    pub fn parse(text: &[u8]) -> Result<Self, PatchError> {
        Self::from_value(parse_json(text)?.value)
    }

    /// Parses a patch strictly: `fieldValidation=Warn`, the default, or `Strict`. Also returns the warnings or strict
    /// errors: duplicate fields, then unknown ones.
    ///
    /// # Errors
    /// If it is not a list of objects, one of its fields has the wrong type, or it is longer than
    /// [`MAX_JSON_PATCH_OPERATIONS`].
    pub fn parse_strict(text: &[u8]) -> Result<(Self, Vec<String>), PatchError> {
        let ParsedJson { value, duplicates } = parse_json(text).map_err(PatchError::undecodable)?;
        let unknown = check_types(&value).map_err(PatchError::undecodable)?;
        let warnings =
            duplicates.into_iter().chain(unknown).map(|error| format!("json patch {error}")).collect();
        Ok((Self::from_value(value)?, warnings))
    }

    /// A patch from its operations.
    ///
    /// # Errors
    /// If it is not a list of objects, or longer than [`MAX_JSON_PATCH_OPERATIONS`].
    pub fn from_value(value: Value) -> Result<Self, PatchError> {
        let list = match value {
            Value::Null => Vec::new(),
            Value::Array(list) => list,
            other => return Err(PatchError::malformed(mistyped(&other, "value of type jsonpatch.Patch"))),
        };
        let operations = list.into_iter().map(|operation| match operation {
            Value::Null => Ok(Map::new()),
            Value::Object(operation) => Ok(operation),
            other => Err(PatchError::malformed(mistyped(&other, "value of type jsonpatch.Operation"))),
        });
        let operations: Vec<_> = operations.collect::<Result<_, _>>()?;
        if operations.len() > MAX_JSON_PATCH_OPERATIONS {
            return Err(PatchError::TooManyOperations { count: operations.len() });
        }
        Ok(Self { operations })
    }

    /// Returns the patched object.
    ///
    /// # Errors
    /// [`PatchError::DoesNotApply`] for the first operation that fails or whose test does not hold, and when copies add
    /// more than [`MAX_JSON_PATCH_COPY`] bytes; [`PatchError::TooDeep`] for the first one whose result exceeds
    /// [`MAX_JSON_DEPTH`](crate::MAX_JSON_DEPTH); [`PatchError::TooMuchWork`] for the first one that exceeds
    /// [`MAX_JSON_PATCH_WORK`](crate::MAX_JSON_PATCH_WORK).
    pub fn apply(&self, object: &Value) -> Result<Value, PatchError> {
        self.apply_within(object, MAX_JSON_PATCH_COPY)
    }

    pub(super) fn apply_within(&self, object: &Value, copy_limit: usize) -> Result<Value, PatchError> {
        let mut document = Document::new(object.clone(), copy_limit);
        for (index, operation) in self.operations.iter().enumerate() {
            document.run(operation).map_err(|refusal| match refusal {
                Refusal::DoesNotApply(message) => PatchError::DoesNotApply { message },
                Refusal::TooDeep => PatchError::TooDeep { operation: index },
                Refusal::TooMuchWork => PatchError::TooMuchWork { operation: index },
            })?;
        }
        Ok(document.into_value())
    }
}

/// Go's type error, or if all types fit, the errors for unknown fields.
fn check_types(patch: &Value) -> Result<Vec<String>, String> {
    let list = match patch {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) => list,
        other => return Err(mistyped(other, "value of type []handlers.jsonPatchOp")),
    };
    let mut unknown = Vec::new();
    for (index, operation) in list.iter().enumerate() {
        let fields = match operation {
            Value::Null => continue,
            Value::Object(fields) => fields,
            other => return Err(mistyped(other, "value of type handlers.jsonPatchOp")),
        };
        for (name, value) in fields {
            match (name.as_str(), value) {
                ("value", _) | ("op" | "path" | "from", Value::String(_) | Value::Null) => {}
                ("op" | "path" | "from", other) => {
                    return Err(mistyped(other, &format!("struct field jsonPatchOp.{name} of type string")));
                }
                _ => unknown.push(format!("unknown field {}", quoted(&format!("[{index}].{name}")))),
            }
        }
    }
    Ok(unknown)
}

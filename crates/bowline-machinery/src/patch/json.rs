//! A JSON patch as a client sends it: read, checked, and applied operation by operation.

use serde_json::{Map, Value};

use super::operation::{Document, Refusal};
use super::{MAX_JSON_PATCH_COPY, MAX_JSON_PATCH_OPERATIONS, PatchError, mistyped};
use crate::json::{ParsedJson, parse_json};
use crate::quote::quoted;

/// A list of operations, all of which are done or none.
///
/// As in kube-apiserver, an operation is looked at when its turn comes: what is wrong with a later one is not told if
/// an earlier one fails. It strays from RFC 6902 in these ways: negative indexes count from the end, `replace` adds a
/// field that is not there, `copy` of a field that is not there gives `null`, an absent value is `null`, and what
/// stands before the first slash of a path is passed over.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch {
    operations: Vec<Map<String, Value>>,
}

impl JsonPatch {
    /// Reads a patch, whatever else its operations have in them: `fieldValidation=Ignore`.
    ///
    /// # Errors
    /// If it is no list of objects, or longer than [`MAX_JSON_PATCH_OPERATIONS`].
    pub fn parse(text: &[u8]) -> Result<Self, PatchError> {
        Self::from_value(parse_json(text)?.value)
    }

    /// Reads a patch strictly: `fieldValidation=Warn`, which is the default, or `Strict`. Also gives what to warn of or
    /// to refuse: fields that are there twice and, behind them, those that are unknown.
    ///
    /// # Errors
    /// If it is no list of objects, one of its fields has the wrong type, or it is longer than
    /// [`MAX_JSON_PATCH_OPERATIONS`].
    pub fn parse_strict(text: &[u8]) -> Result<(Self, Vec<String>), PatchError> {
        let ParsedJson { value, duplicates } = parse_json(text).map_err(PatchError::undecodable)?;
        let unknown = check_types(&value).map_err(PatchError::undecodable)?;
        let told = duplicates.into_iter().chain(unknown).map(|told| format!("json patch {told}")).collect();
        Ok((Self::from_value(value)?, told))
    }

    /// A patch from its operations.
    ///
    /// # Errors
    /// If it is no list of objects, or longer than [`MAX_JSON_PATCH_OPERATIONS`].
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

    /// The object as the patch leaves it.
    ///
    /// # Errors
    /// [`PatchError::DoesNotApply`] for the first operation that cannot be done or whose test fails, and when copies
    /// add more than [`MAX_JSON_PATCH_COPY`] bytes; [`PatchError::TooDeep`] for the first that would put something
    /// deeper than [`MAX_JSON_DEPTH`](crate::MAX_JSON_DEPTH).
    pub fn apply(&self, object: &Value) -> Result<Value, PatchError> {
        self.apply_within(object, MAX_JSON_PATCH_COPY)
    }

    pub(super) fn apply_within(&self, object: &Value, copy_limit: usize) -> Result<Value, PatchError> {
        let mut document = Document::new(object.clone(), copy_limit);
        for (index, operation) in self.operations.iter().enumerate() {
            document.run(operation).map_err(|refusal| match refusal {
                Refusal::DoesNotApply(message) => PatchError::DoesNotApply { message },
                Refusal::TooDeep => PatchError::TooDeep { operation: index },
            })?;
        }
        Ok(document.into_value())
    }
}

/// What Go says about types that do not fit, and if all do, about fields it does not know.
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

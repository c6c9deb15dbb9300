//! Patches: from the body of a request to what becomes of an object.

use bowline_machinery::{FieldError, FieldPath, GroupKind, JsonPatch, MergePatch, PatchError, Status};
use serde_json::Value;

use crate::decode::{self, Decoded};
use crate::negotiate::{self, PatchType};
use crate::query::Query;
use crate::resource::{FieldValidation, Resource};
use crate::rest::ResourceRequest;

/// A patch that was read, but not applied yet.
pub(crate) struct Patch {
    operation: Operation,
    /// Fields of the patch that are unknown or repeated.
    complaints: Vec<String>,
}

enum Operation {
    Json(JsonPatch),
    Merge(MergePatch),
}

impl Patch {
    /// The patch of a request.
    pub(crate) fn parse(exchange: &ResourceRequest<'_>) -> Result<Self, Status> {
        let kind = negotiate::patch(exchange.headers)?;
        let lax = decode::field_validation(&exchange.query.field_validation) == FieldValidation::Ignore;
        Self::read(kind, exchange.body, lax).map_err(|error| error.status())
    }

    fn read(kind: PatchType, body: &[u8], lax: bool) -> Result<Self, PatchError> {
        let (operation, complaints) = match kind {
            PatchType::Json if lax => (Operation::Json(JsonPatch::parse(body)?), Vec::new()),
            PatchType::Json => {
                let (patch, complaints) = JsonPatch::parse_strict(body)?;
                (Operation::Json(patch), complaints)
            }
            PatchType::Merge if lax => (Operation::Merge(MergePatch::parse(body)?), Vec::new()),
            PatchType::Merge => {
                let (patch, complaints) = MergePatch::parse_strict(body)?;
                (Operation::Merge(patch), complaints)
            }
        };
        Ok(Self { operation, complaints })
    }

    /// A value as the patch leaves it, whatever that is.
    pub(crate) fn apply(&self, value: &Value) -> Result<Value, Status> {
        match &self.operation {
            Operation::Json(patch) => patch.apply(value).map_err(|error| error.status()),
            Operation::Merge(patch) => Ok(patch.apply(value)),
        }
    }

    /// An object as the patch leaves it, if it is still one of its kind.
    pub(crate) fn apply_to(
        &self,
        resource: &Resource,
        object: &Value,
        query: &Query,
    ) -> Result<Decoded, Status> {
        let patched = self.apply(object)?;
        let mut unknown = Vec::new();
        let decoded = decode::of_kind(resource, patched.clone(), &mut unknown);
        let object = decoded.map_err(|status| {
            // Custom objects say what is wrong with them in their own way.
            if resource.behaviour.items_have_kind() {
                return status;
            }
            refused(&patched, without_kind(resource, &patched, &status.message))
        })?;
        let mut complaints = self.complaints.clone();
        complaints.extend(unknown);
        let strict = decode::field_validation(&query.field_validation) == FieldValidation::Strict;
        if strict && !complaints.is_empty() && !resource.behaviour.items_have_kind() {
            let why = format!("strict decoding error: {}", complaints.join(", "));
            return Err(refused(&patched, &why));
        }
        Ok(Decoded { object, complaints })
    }
}

/// The error for an object that a patch has made unreadable.
pub(crate) fn refused(patched: &Value, why: &str) -> Status {
    let error = FieldError::invalid(&FieldPath::new("patch"), patched.to_string(), why);
    Status::invalid(&GroupKind::new("", ""), "", &[error])
}

/// An error of an object, without its kind and name.
fn without_kind<'a>(resource: &Resource, patched: &Value, message: &'a str) -> &'a str {
    let sent = patched.get("kind").and_then(Value::as_str).unwrap_or(&resource.gvk.kind);
    let begin = format!("{sent} in version ");
    let end = format!(" cannot be handled as a {}: ", resource.gvk.kind);
    let rest = message.strip_prefix(&begin).and_then(|rest| rest.split_once(&end));
    rest.map_or(message, |(_, why)| why)
}

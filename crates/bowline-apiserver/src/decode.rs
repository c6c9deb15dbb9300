//! From the bytes of a request to an object of the kind it should be.

use bowline_machinery::{FieldError, FieldPath, GroupKind, Status};
use serde_json::Value;

use crate::resource::{FieldValidation, Resource};

/// An object of the right kind, and what was not understood of it.
#[derive(Clone, Debug)]
pub(crate) struct Decoded {
    pub(crate) object: Value,
    /// Unknown and repeated fields, as a client is told of them.
    pub(crate) complaints: Vec<String>,
}

/// Reads an object that is to be written to a resource.
pub(crate) fn object(resource: &Resource, body: &[u8]) -> Result<Decoded, Status> {
    let kind = &resource.gvk.kind;
    let parsed = bowline_machinery::parse_json(body).map_err(|error| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse \
             error: {error} ({})",
            excerpt(body)
        ))
    })?;
    let mut complaints = Vec::new();
    let object = of_kind(resource, parsed.value, &mut complaints)?;
    complaints.extend(parsed.duplicates);
    Ok(Decoded { object, complaints })
}

/// Sees to it that a value is an object of the resource's kind.
pub(crate) fn of_kind(
    resource: &Resource,
    mut value: Value,
    complaints: &mut Vec<String>,
) -> Result<Value, Status> {
    let kind = &resource.gvk.kind;
    if !value.is_object() {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): it is not a JSON object"
        )));
    }
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (sent_version, sent_kind) = (text("apiVersion"), text("kind"));
    let expected_version = resource.api_version();
    if resource.behaviour.items_have_kind() {
        // A custom object has to say what it is.
        for (field, sent) in [("Kind", &sent_kind), ("apiVersion", &sent_version)] {
            if sent.is_empty() {
                return Err(Status::bad_request(format!(
                    "the object provided is unrecognized (must be of type {kind}): Object '{field}' is missing in \
                     '{value}'"
                )));
            }
        }
    }
    if resource.behaviour.items_have_kind() && sent_version != expected_version {
        return Err(Status::bad_request(format!(
            "the API version in the data ({sent_version}) does not match the expected API version ({expected_version})"
        )));
    }
    if resource.behaviour.items_have_kind() && sent_kind != *kind {
        let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let error =
            FieldError::invalid(&FieldPath::new("kind"), sent_kind.as_str(), format!("must be {kind}"));
        return Err(Status::invalid(&GroupKind::new(&resource.gvk.group, &sent_kind), name, &[error]));
    }
    let kind_differs = !sent_kind.is_empty() && sent_kind != *kind;
    let version_differs = !sent_version.is_empty() && sent_version != expected_version;
    if kind_differs || version_differs {
        let kind_sent = if sent_kind.is_empty() { kind } else { &sent_kind };
        let version = sent_version.rsplit('/').next().unwrap_or_default();
        return Err(Status::bad_request(format!(
            "{kind_sent} in version {version:?} cannot be handled as a {kind}: the request is for {expected_version}, \
             Kind={kind}"
        )));
    }
    if let Some(fields) = value.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    resource.behaviour.normalise(value, complaints)
}

/// Puts `apiVersion` and `kind` on an object.
pub(crate) fn put_kind(object: &mut Value, resource: &Resource) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), resource.api_version().into());
        fields.insert("kind".to_owned(), resource.gvk.kind.clone().into());
    }
}

pub(crate) fn field_validation(value: &str) -> Result<FieldValidation, Status> {
    match value {
        "" | "Warn" => Ok(FieldValidation::Warn),
        "Ignore" => Ok(FieldValidation::Ignore),
        "Strict" => Ok(FieldValidation::Strict),
        other => {
            let path = bowline_machinery::FieldPath::new("fieldValidation");
            let error =
                bowline_machinery::FieldError::not_supported(&path, other, &["", "Ignore", "Strict", "Warn"]);
            let kind = bowline_machinery::GroupKind::new("meta.k8s.io", "CreateOptions");
            Err(Status::invalid(&kind, "", &[error]))
        }
    }
}

/// Refuses an object with fields that were not understood.
pub(crate) fn strict_error(resource: &Resource, complaints: &[String]) -> Status {
    let complaints = complaints.join(", ");
    if resource.behaviour.items_have_kind() {
        return Status::bad_request(format!("strict decoding error: {complaints}"));
    }
    let (kind, version) = (&resource.gvk.kind, &resource.gvk.version);
    Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {complaints}"
    ))
}

/// The beginning of a body, for a message.
fn excerpt(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).into_owned();
    if body.len() > SHOWN { format!("{text} ...") } else { text }
}

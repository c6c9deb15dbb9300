//! Decoding of a request body to an object of the expected kind.

use std::fmt::{self, Write as _};

use bowline_machinery::{FieldError, FieldPath, GroupKind, GroupVersionKind, Status, facts};
use serde_json::Value;

use crate::resource::{FieldValidation, Resource};

/// An object of the right kind, and its unknown fields.
#[derive(Clone, Debug)]
pub(crate) struct Decoded {
    pub(crate) object: Value,
    /// Unknown and duplicate fields, in the words of the response.
    pub(crate) complaints: Vec<String>,
}

/// Decodes an object for a write to a resource.
pub(crate) fn object(resource: &Resource, body: &[u8]) -> Result<Decoded, Status> {
    let parsed = bowline_machinery::parse_json(body).map_err(|error| unreadable(resource, body, &error))?;
    check_body(resource, &parsed.value, body)?;
    let mut complaints = Vec::new();
    let object = of_kind(resource, parsed.value, &mut complaints)?;
    if complaints.len() > 1 {
        sort(&mut complaints, body);
    }
    complaints.extend(parsed.duplicates);
    Ok(Decoded { object, complaints })
}

/// Checks that a body is an object whose apiVersion and kind are strings.
fn check_body(resource: &Resource, value: &Value, body: &[u8]) -> Result<(), Status> {
    /// The first struct into which Go decodes it.
    const TYPE: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    if !value.is_object() && !value.is_null() {
        let error = format!("json: cannot unmarshal {} into Go value of type {TYPE}", go_kind(value));
        return Err(unreadable(resource, body, &error));
    }
    for field in ["apiVersion", "kind"] {
        if let Some(wrong) = value.get(field).filter(|value| !value.is_string() && !value.is_null()) {
            let kind = go_kind(wrong);
            let error = format!("json: cannot unmarshal {kind} into Go struct field .{field} of type string");
            return Err(unreadable(resource, body, &error));
        }
    }
    let api_version = value.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if api_version.matches('/').count() > 1 {
        let error = format!("unexpected GroupVersion string: {api_version}");
        return Err(unrecognized(resource, body, &error));
    }
    let has_kind = value.get("kind").and_then(Value::as_str).is_some_and(|kind| !kind.is_empty());
    if resource.behaviour.items_have_kind() && !has_kind {
        let error = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(body));
        return Err(unrecognized(resource, body, &error));
    }
    Ok(())
}

fn unreadable(resource: &Resource, body: &[u8], error: &dyn fmt::Display) -> Status {
    unrecognized(resource, body, &format!("couldn't get version/kind; json parse error: {error}"))
}

fn unrecognized(resource: &Resource, body: &[u8], error: &str) -> Status {
    let (kind, excerpt) = (&resource.gvk.kind, excerpt(body));
    let message =
        format!("the object provided is unrecognized (must be of type {kind}): {error} ({excerpt})");
    Status::bad_request(message)
}

/// Go's name of a JSON type.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) | Value::Null => "bool",
    }
}

/// Sorts messages about unknown fields into the order of the request's body.
fn sort(complaints: &mut Vec<String>, body: &[u8]) {
    const BEGIN: &str = "unknown field \"";
    let path = |complaint: &String| Some(complaint.strip_prefix(BEGIN)?.strip_suffix('"')?.to_owned());
    let Some(mut paths) = complaints.iter().map(path).collect::<Option<Vec<_>>>() else { return };
    bowline_machinery::sort_by_document_order(body, &mut paths);
    *complaints = paths.into_iter().map(|path| format!("{BEGIN}{path}\"")).collect();
}

/// Checks that a value is an object of the resource's kind, and completes it.
pub(crate) fn of_kind(
    resource: &Resource,
    mut value: Value,
    complaints: &mut Vec<String>,
) -> Result<Value, Status> {
    let kind = &resource.gvk.kind;
    if value.is_null() && !resource.behaviour.items_have_kind() {
        value = Value::Object(serde_json::Map::new());
    }
    if !value.is_object() {
        let found = go_kind(&value);
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse \
             error: json: cannot unmarshal {found} into an object"
        )));
    }
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (sent_version, sent_kind) = (text("apiVersion"), text("kind"));
    let expected_version = resource.api_version();
    if resource.behaviour.items_have_kind() && sent_kind.is_empty() {
        // A custom object has to state its kind.
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing in '{value}'"
        )));
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
    check_kind(resource, &sent_version, &sent_kind)?;
    crate::object::strip_kind(&mut value);
    resource.behaviour.normalise(value, complaints)
}

/// A built-in object may omit its kind, but must not state another.
fn check_kind(resource: &Resource, sent_version: &str, sent_kind: &str) -> Result<(), Status> {
    let GroupVersionKind { group, kind, .. } = &resource.gvk;
    let expected_version = resource.api_version();
    let version = if sent_version.is_empty() { expected_version.as_str() } else { sent_version };
    let sent_kind = if sent_kind.is_empty() { kind.as_str() } else { sent_kind };
    if sent_kind == kind && version == expected_version {
        return Ok(());
    }
    let (sent_group, short) = version.split_once('/').unwrap_or(("", version));
    let is_known = facts::type_of(sent_group, short, sent_kind).is_some();
    if is_known && sent_kind == kind && sent_group == group {
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected_version})"
        )));
    }
    let why = if is_known {
        // Go's package names: the one of the version, and the internal one of all versions.
        let package = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or_default() };
        format!("converting ({short}.{sent_kind}) to ({package}.{kind}): unknown conversion")
    } else {
        format!("no kind {sent_kind:?} is registered for version {version:?}")
    };
    Err(Status::bad_request(format!("{sent_kind} in version {short:?} cannot be handled as a {kind}: {why}")))
}

/// Puts `apiVersion` and `kind` on an object.
pub(crate) fn put_kind(object: &mut Value, resource: &Resource) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), resource.api_version().into());
        fields.insert("kind".to_owned(), resource.gvk.kind.clone().into());
    }
}

/// The requested treatment of unknown fields. The value was validated before.
pub(crate) fn field_validation(value: &str) -> FieldValidation {
    match value {
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        _ => FieldValidation::Warn,
    }
}

/// Refuses an object with unknown fields.
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

/// The beginning of a body for a message: verbatim if it could be an object, else in hexadecimal.
fn excerpt(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let shown = &body[..body.len().min(SHOWN)];
    let mut text = match shown.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(shown).into_owned(),
        Some(_) => shown.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }),
    };
    if body.len() > SHOWN {
        text.push_str(" ...");
    }
    text
}

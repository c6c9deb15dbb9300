//! Embedded resources: they have the type and metadata of any object.

use serde_json::Value;

use super::errors::Errors;
use super::metadata;
use super::node::Node;
use super::unknown::UnknownPaths;
use crate::{FieldError, FieldPath, name_is_path_segment, validate_dns1035_label, validate_object_meta};

/// Brings the metadata of embedded resources into the form of Kubernetes: without unknown and without empty fields.
/// Adds the paths of unknown fields to `unknown`.
///
/// # Errors
/// The first metadata field of the wrong type.
pub(super) fn coerce(
    node: &Node,
    value: &mut Value,
    is_resource: bool,
    path: &FieldPath,
    unknown: &mut UnknownPaths,
) -> Result<(), FieldError> {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if is_resource || node.extensions.embedded_resource {
                    coerce_meta(name, value, path, unknown)?;
                }
                if let Some(property) = node.properties.get(name) {
                    coerce(property, value, false, &path.child(name), unknown)?;
                } else if let Some(additional) = node.additional_schema() {
                    coerce(additional, value, false, &path.key(name), unknown)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(item) = node.item() {
                for (index, value) in items.iter_mut().enumerate() {
                    coerce(item, value, false, &path.index(index), unknown)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn coerce_meta(
    name: &str,
    value: &mut Value,
    path: &FieldPath,
    unknown: &mut UnknownPaths,
) -> Result<(), FieldError> {
    match name {
        "apiVersion" | "kind" if !value.is_string() => {
            Err(FieldError::invalid(&path.child(name), value.clone(), "must be a string"))
        }
        "metadata" => {
            let path = path.child("metadata");
            let decoded = metadata::decode(value)
                .map_err(|message| FieldError::invalid(&path, value.clone(), message))?;
            for field in &decoded.unknown {
                unknown.add(|| format!("{path}.{field}"));
            }
            *value = Value::Object(decoded.metadata);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Validates the types and metadata of embedded resources.
pub(super) fn validate(node: &Node, value: &Value, is_resource: bool, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Errors::default();
    walk(node, value, is_resource, path, &mut errors);
    errors.into_vec()
}

fn walk(node: &Node, value: &Value, is_resource: bool, path: &FieldPath, errors: &mut Errors) {
    if errors.is_full() {
        return;
    }
    match value {
        Value::Object(fields) => {
            if is_resource || node.extensions.embedded_resource {
                resource(value, path, errors);
            }
            for (name, value) in fields.iter().filter(|(_, value)| value.is_object() || value.is_array()) {
                if let Some(property) = node.properties.get(name) {
                    walk(property, value, false, &path.child(name), errors);
                } else if let Some(additional) = node.additional_schema() {
                    walk(additional, value, false, &path.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item) = node.item() {
                for (index, value) in items.iter().enumerate() {
                    walk(item, value, false, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn resource(value: &Value, path: &FieldPath, errors: &mut Errors) {
    for name in ["apiVersion", "kind"] {
        let at = path.child(name);
        match value.get(name) {
            None => errors.push(FieldError::required(&at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(&at, "", "must not be empty"));
            }
            Some(Value::String(text)) => {
                let wrong = if name == "kind" { wrong_kind(text) } else { wrong_api_version(text) };
                errors.extend(wrong.map(|detail| FieldError::invalid(&at, text.as_str(), detail)));
            }
            Some(other) => errors.push(FieldError::invalid(&at, other.clone(), "must be a string")),
        }
    }
    let Some(metadata) = value.get("metadata") else { return };
    let at = path.child("metadata");
    match metadata::decode(metadata) {
        Err(message) => errors.push(FieldError::invalid(&at, metadata.clone(), message)),
        Ok(decoded) => {
            let mut metadata = decoded.metadata;
            metadata.entry("name").or_insert_with(|| "fakename".into());
            let is_namespaced = metadata.contains_key("namespace");
            // The path to the resource may be long, and errors many: only reported errors get the prefix.
            let own = FieldPath::new("metadata");
            let found = validate_object_meta(&metadata.into(), is_namespaced, name_is_path_segment, &own);
            errors.extend(found.into_iter().map(|mut error| {
                error.path = path.child(&error.path.to_string());
                error
            }));
        }
    }
}

fn wrong_kind(kind: &str) -> Option<String> {
    let wrong = validate_dns1035_label(&kind.to_lowercase());
    let prefix = "may have mixed case, but should otherwise match: ";
    (!wrong.is_empty()).then(|| format!("{prefix}{}", wrong.join(",")))
}

fn wrong_api_version(version: &str) -> Option<String> {
    let slashes = version.bytes().filter(|byte| *byte == b'/').count();
    (slashes > 1).then(|| format!("unexpected GroupVersion string: {version}"))
}

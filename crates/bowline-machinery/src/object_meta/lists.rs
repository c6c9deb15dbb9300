//! The parts of `metadata` that are lists or maps.

use serde_json::Value;

use super::{invalid, text, texts};
use crate::quote::is_printable;
use crate::{
    FieldError, FieldPath, GroupVersion, GroupVersionKind, validate_label_value, validate_qualified_name,
};

const ANNOTATIONS_LIMIT: usize = 256 * 1024;
const MANAGER_LIMIT: usize = 128;
const SUBRESOURCE_LIMIT: usize = 256;

/// Validates a map of labels. The path of an error is that of the map.
#[must_use]
pub fn validate_labels(labels: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels.as_object().into_iter().flatten() {
        errors.extend(invalid(path, key, validate_qualified_name(key)));
        let value = value.as_str().unwrap_or_default();
        errors.extend(invalid(path, value, validate_label_value(value)));
    }
    errors
}

/// Validates a map of annotations: its keys, ignoring case, and its total size.
#[must_use]
pub fn validate_annotations(annotations: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        errors.extend(invalid(path, key, validate_qualified_name(&key.to_lowercase())));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long(path, ANNOTATIONS_LIMIT));
    }
    errors
}

/// Validates the name of a field manager: at most 128 bytes, all printable.
#[must_use]
pub fn validate_field_manager(manager: &str, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > MANAGER_LIMIT {
        errors.push(FieldError::too_long(path, MANAGER_LIMIT));
    }
    for (position, character) in manager.char_indices().filter(|(_, character)| !is_printable(*character)) {
        let detail = format!("invalid character U+{:04X} (at position {position})", u32::from(character));
        errors.push(FieldError::invalid(path, manager, detail));
    }
    errors
}

pub(super) fn validate_owner_references(references: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    for reference in references.as_array().into_iter().flatten() {
        errors.extend(validate_owner_reference(reference, path));
        if reference["controller"] != true {
            continue;
        }
        let name = format!("{}/{}", text(reference, "kind"), text(reference, "name"));
        if let Some(first) = &controller {
            let detail = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {first} and \
                 {name}"
            );
            let shown: Vec<_> =
                references.as_array().into_iter().flatten().map(shown_owner_reference).collect();
            let shown = format!("[{}]", shown.join(","));
            errors.push(FieldError::invalid_shown(path, references.clone(), shown, detail));
        } else {
            controller = Some(name);
        }
    }
    errors
}

fn validate_owner_reference(reference: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let api_version = text(reference, "apiVersion");
    // An `apiVersion` that cannot be split counts as a kind without a group, as in Go.
    let group_version = GroupVersion::parse(api_version).unwrap_or(GroupVersion::new("", ""));
    if group_version.version.is_empty() {
        let path = path.child("apiVersion");
        errors.push(FieldError::invalid(&path, api_version, "version must not be empty"));
    }
    for field in ["kind", "name", "uid"] {
        if text(reference, field).is_empty() {
            errors.push(FieldError::invalid(&path.child(field), "", "must not be empty"));
        }
    }
    let kind = GroupVersionKind::new(&group_version.group, &group_version.version, text(reference, "kind"));
    if kind == GroupVersionKind::new("", "v1", "Event") {
        let shown = shown_owner_reference(reference);
        let detail = format!("{kind} is disallowed from being an owner");
        errors.push(FieldError::invalid_shown(path, reference.clone(), shown, detail));
    }
    errors
}

/// A reference with its fields in Go's order.
fn shown_owner_reference(reference: &Value) -> String {
    let always = ["apiVersion", "kind", "name", "uid"].map(|field| (field, text(reference, field).into()));
    let sometimes = ["controller", "blockOwnerDeletion"].map(|field| (field, reference[field].clone()));
    let fields = always.into_iter().chain(sometimes.into_iter().filter(|(_, value)| value.is_boolean()));
    let fields: Vec<_> = fields.map(|(field, value)| format!("\"{field}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

pub(super) fn validate_finalizers(finalizers: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors: Vec<_> =
        texts(finalizers).flat_map(|name| invalid(path, name, validate_qualified_name(name))).collect();
    let has = |wanted: &str| texts(finalizers).any(|name| name == wanted);
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, finalizers.clone(), detail));
    }
    errors
}

/// Validates finalizers beyond [the rules for all kinds](super::validate_object_meta). Most built-in kinds accept a
/// finalizer without a domain only if it is one of Kubernetes.
#[must_use]
pub fn validate_qualified_finalizers(meta: &Value, path: &FieldPath) -> Vec<FieldError> {
    let path = path.child("finalizers");
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    let is_known = |name: &str| matches!(name, "kubernetes" | "orphan" | "foregroundDeletion");
    let names = texts(&meta["finalizers"]).enumerate();
    let wrong = names.filter(|(_, name)| !name.contains('/') && !is_known(name));
    wrong.map(|(index, name)| FieldError::invalid(&path.index(index), name, detail)).collect()
}

pub(super) fn validate_managed_fields(entries: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, entry) in entries.as_array().into_iter().flatten().enumerate() {
        let path = path.index(index);
        let operation = text(entry, "operation");
        if !matches!(operation, "Apply" | "Update") {
            let path = path.child("operation");
            errors.push(FieldError::invalid(&path, operation, "must be `Apply` or `Update`"));
        }
        let fields_type = text(entry, "fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.push(FieldError::invalid(&path.child("fieldsType"), fields_type, "must be `FieldsV1`"));
        }
        errors.extend(validate_field_manager(text(entry, "manager"), &path.child("manager")));
        if text(entry, "subresource").len() > SUBRESOURCE_LIMIT {
            errors.push(FieldError::too_long(&path.child("subresource"), SUBRESOURCE_LIMIT));
        }
    }
    errors
}

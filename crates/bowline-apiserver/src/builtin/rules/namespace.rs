//! Rules for namespaces: their deletion ends once they are empty.

use bowline_machinery::{FieldError, FieldPath};
use serde_json::{Value, json};

use crate::object::{child_mut, into_map, meta_str, metadata};
use crate::resource::WriteTarget;

/// Label by which selectors find a namespace by name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Finalizer of the controller that empties a namespace before its deletion.
const KUBERNETES: &str = "kubernetes";

pub(super) fn default(namespace: &mut Value) {
    let name = meta_str(namespace, "name").to_owned();
    if !name.is_empty() {
        let labels = child_mut(namespace, "metadata").entry("labels").or_insert(Value::Null);
        into_map(labels).insert(NAME_LABEL.to_owned(), name.into());
    }
}

pub(super) fn prepare_create(namespace: &mut Value) {
    let spec = child_mut(namespace, "spec");
    let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(finalizers) = finalizers.as_array_mut()
        && !finalizers.iter().any(|finalizer| finalizer == KUBERNETES)
    {
        finalizers.push(KUBERNETES.into());
    }
    into_map(namespace).insert("status".to_owned(), json!({"phase": "Active"}));
}

/// Only `finalize` changes the finalizers of the spec.
pub(super) fn prepare_update(part: WriteTarget, new: &mut Value, old: &Value) {
    let before = old.pointer("/spec/finalizers").cloned();
    let spec = child_mut(new, "spec");
    if part == WriteTarget::Main {
        match before {
            Some(finalizers) => spec.insert("finalizers".to_owned(), finalizers),
            None => spec.remove("finalizers"),
        };
    }
    // An empty list is not written.
    if spec.get("finalizers").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        spec.remove("finalizers");
    }
}

pub(super) fn prepare_delete(namespace: &mut Value) {
    let status = child_mut(namespace, "status");
    status.insert("phase".to_owned(), "Terminating".into());
}

pub(super) fn is_held(namespace: &Value) -> bool {
    namespace.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|own| !own.is_empty())
}

/// The phase must agree with the deletion timestamp.
pub(super) fn validate_update(part: WriteTarget, new: &Value, _old: &Value) -> Vec<FieldError> {
    if part != WriteTarget::Status {
        return Vec::new();
    }
    let deleting = metadata(new).is_some_and(|metadata| metadata.contains_key("deletionTimestamp"));
    let phase = new.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    let path = FieldPath::new("status").child("Phase");
    let wrong = match (deleting, phase) {
        (false, "Active") | (true, "Terminating") => return Vec::new(),
        (false, _) => "may only be 'Active' if `deletionTimestamp` is empty",
        (true, _) => "may only be 'Terminating' if `deletionTimestamp` is not empty",
    };
    vec![FieldError::invalid(&path, phase, wrong)]
}

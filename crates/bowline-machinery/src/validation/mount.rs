//! Volume mounts, and references to fields of the pod.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::{Errors, invalid, is_set, items, list, text};
use crate::{FieldError, FieldPath, validate_qualified_name};

/// The pod fields that an environment variable can refer to.
pub(super) const OF_VARIABLES: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The pod fields that a file can contain.
pub(super) const OF_FILES: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Validates volume mounts and volume devices of a container.
pub(super) fn mounts(container: &Value, volumes: &BTreeSet<String>, path: &FieldPath) -> Errors {
    let devices: Vec<_> = list(container, "volumeDevices")
        .iter()
        .map(|device| (text(device, "name"), text(device, "devicePath")))
        .collect();
    let whole = path.child("volumeMounts");
    let mut errors = Vec::new();
    let mut places = BTreeSet::new();
    for (mount, path) in items(container, "volumeMounts", path) {
        let (name, place) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        }
        if !volumes.contains(name) {
            errors.push(FieldError::not_found(&path.child("name"), name));
        }
        if place.is_empty() {
            errors.push(FieldError::required(&path.child("mountPath"), ""));
        }
        if !places.insert(place) {
            errors.push(FieldError::invalid(&path.child("mountPath"), place, "must be unique"));
        }
        if devices.iter().any(|(device, _)| *device == name) {
            let detail = "must not already exist in volumeDevices";
            errors.push(FieldError::invalid(&path.child("name"), name, detail));
        }
        if devices.iter().any(|(_, device)| *device == place) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.push(FieldError::invalid(&path.child("mountPath"), place, detail));
        }
        // In Kubernetes, the path of these errors is that of the list, not of its item.
        for field in ["subPath", "subPathExpr"] {
            if !text(mount, field).is_empty() {
                errors.extend(descending(text(mount, field), &whole.child(field)));
            }
        }
    }
    for (device, path) in items(container, "volumeDevices", path) {
        let (name, place) = (text(device, "name"), text(device, "devicePath"));
        if name.is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        } else if !volumes.contains(name) {
            errors.push(FieldError::not_found(&path.child("name"), name));
        }
        if place.is_empty() {
            errors.push(FieldError::required(&path.child("devicePath"), ""));
        }
    }
    errors
}

/// Checks that a path is relative and does not contain `..`.
pub(super) fn descending(place: &str, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    if place.starts_with('/') {
        errors.push(FieldError::invalid(path, place, "must be a relative path"));
    }
    errors.extend(no_way_up(place, path));
    errors
}

pub(super) fn no_way_up(place: &str, path: &FieldPath) -> Option<FieldError> {
    let up = place.split('/').any(|part| part == "..");
    up.then(|| FieldError::invalid(path, place, "must not contain '..'"))
}

/// The same, and checks for reserved names.
pub(super) fn not_reserved(place: &str, path: &FieldPath) -> Errors {
    let mut errors = descending(place, path);
    if place.starts_with("..") && !place.starts_with("../") {
        errors.push(FieldError::invalid(path, place, "must not start with '..'"));
    }
    errors
}

/// Validates a reference to a field of the pod.
pub(super) fn field_reference(reference: &Value, known: &[&str], path: &FieldPath) -> Errors {
    for field in ["apiVersion", "fieldPath"] {
        if text(reference, field).is_empty() {
            return vec![FieldError::required(&path.child(field), "")];
        }
    }
    let field = text(reference, "fieldPath");
    let at = path.child("fieldPath");
    if let Some((map, rest)) = field.split_once("['") {
        let Some(key) = rest.strip_suffix("']") else {
            let detail = format!("error converting fieldPath: field label not supported: {field}");
            return vec![FieldError::invalid(&at, field, detail)];
        };
        return match map {
            "metadata.annotations" => {
                let key = key.to_ascii_lowercase();
                invalid(path, &key, validate_qualified_name(&key))
            }
            "metadata.labels" => invalid(path, key, validate_qualified_name(key)),
            _ => {
                let detail =
                    format!("error converting fieldPath: field label does not support subscript: {field}");
                vec![FieldError::invalid(&at, field, detail)]
            }
        };
    }
    if known.contains(&field) {
        return Vec::new();
    }
    if OF_VARIABLES.contains(&field) || OF_FILES.contains(&field) {
        return vec![FieldError::not_supported(&at, field, known)];
    }
    let detail = format!("error converting fieldPath: field label not supported: {field}");
    vec![FieldError::invalid(&at, field, detail)]
}

/// Validates a reference to a container's requests or limits. A file must name the container.
pub(super) fn resource_reference(reference: &Value, of_file: bool, path: &FieldPath) -> Errors {
    let resource = text(reference, "resource");
    let huge = ["limits.hugepages-", "requests.hugepages-"];
    if of_file && text(reference, "containerName").is_empty() {
        vec![FieldError::required(&path.child("containerName"), "")]
    } else if resource.is_empty() {
        vec![FieldError::required(&path.child("resource"), "")]
    } else if !RESOURCES.contains(&resource) && !huge.iter().any(|prefix| resource.starts_with(prefix)) {
        vec![FieldError::not_supported(&path.child("resource"), resource, &RESOURCES)]
    } else {
        Vec::new()
    }
}

/// Validates a file with a field of the pod.
pub(super) fn downward_file(file: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    if text(file, "path").is_empty() {
        errors.push(FieldError::required(&path.child("path"), ""));
    }
    errors.extend(not_reserved(text(file, "path"), &path.child("path")));
    if is_set(file, "fieldRef") {
        errors.extend(field_reference(&file["fieldRef"], OF_FILES, &path.child("fieldRef")));
        if is_set(file, "resourceFieldRef") {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.push(FieldError::invalid(path, "resource", detail));
        }
    } else if is_set(file, "resourceFieldRef") {
        let path = path.child("resourceFieldRef");
        errors.extend(resource_reference(&file["resourceFieldRef"], true, &path));
    } else {
        errors.push(FieldError::required(path, "one of fieldRef and resourceFieldRef is required"));
    }
    errors.extend(mode(file, "mode", path));
    errors
}

/// Validates a file mode.
pub(super) fn mode(object: &Value, field: &str, path: &FieldPath) -> Option<FieldError> {
    let mode = object[field].as_i64().filter(|mode| !(0..=0o777).contains(mode))?;
    let detail = "must be a number between 0 and 0777 (octal), both inclusive";
    Some(FieldError::invalid(&path.child(field), mode, detail))
}

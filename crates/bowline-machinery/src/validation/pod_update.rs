//! Updates of pods: only a few fields may change.

use serde_json::Value;

use super::check::{Errors, is_set, items, list, text};
use super::{container, pod, scheduling};
use crate::{FieldError, FieldPath};

const CHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn update(new: &Value, old: &Value) -> Errors {
    let mut errors = pod::whole(new);
    let path = FieldPath::new("spec");
    let (spec, before) = (&new["spec"], &old["spec"]);
    for field in ["containers", "initContainers"] {
        if list(spec, field).len() != list(before, field).len() {
            let detail = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(&path.child(field), detail));
            return errors;
        }
        for (one, path) in items(spec, field, &path) {
            if text(one, "image").is_empty() {
                errors.push(FieldError::required(&path.child("image"), ""));
            }
            errors.extend(container::trimmed_image(one, &path));
        }
    }
    let at = path.child("activeDeadlineSeconds");
    match (spec["activeDeadlineSeconds"].as_i64(), before["activeDeadlineSeconds"].as_i64()) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            errors.push(FieldError::invalid(&at, new, "must be between 0 and 2147483647, inclusive"));
            return errors;
        }
        (Some(new), Some(old)) if old < new => {
            errors.push(FieldError::invalid(&at, new, "must be less than or equal to previous value"));
            return errors;
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid(&at, Value::Null, detail));
        }
        _ => {}
    }
    errors.extend(added_tolerations(spec, before, &path));
    errors.extend(removed_gates(spec, before, &path));
    if differs(spec, before) {
        errors.push(FieldError::forbidden(&path, format!("{CHANGEABLE}\n")));
    }
    errors
}

fn added_tolerations(spec: &Value, before: &Value, path: &FieldPath) -> Errors {
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(fields) = toleration.as_object_mut() {
            fields.remove("tolerationSeconds");
        }
        toleration
    };
    let now: Vec<_> = list(spec, "tolerations").iter().map(without_seconds).collect();
    if list(before, "tolerations").iter().any(|old| !now.contains(&without_seconds(old))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        return vec![FieldError::forbidden(&path.child("tolerations"), detail)];
    }
    scheduling::tolerations(spec, path)
}

fn removed_gates(spec: &Value, before: &Value, path: &FieldPath) -> Errors {
    let known: Vec<_> = list(before, "schedulingGates").iter().map(|gate| text(gate, "name")).collect();
    let gates = items(spec, "schedulingGates", path).filter(|(gate, _)| !known.contains(&text(gate, "name")));
    gates
        .map(|(gate, path)| {
            let name = text(gate, "name");
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            FieldError::forbidden(&path.child("name"), detail)
        })
        .collect()
}

/// Whether an immutable field changed.
fn differs(spec: &Value, before: &Value) -> bool {
    let mut same = spec.clone();
    for field in ["containers", "initContainers"] {
        let containers = same.get_mut(field).and_then(Value::as_array_mut);
        let pairs = containers.into_iter().flatten().zip(list(before, field));
        for (container, before) in pairs {
            container["image"] = before["image"].clone();
        }
    }
    let mut free = vec!["activeDeadlineSeconds", "schedulingGates", "tolerations"];
    if before["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0)
        && spec["terminationGracePeriodSeconds"] == 1
    {
        free.push("terminationGracePeriodSeconds");
    }
    // The node affinity of a gated pod may become stricter.
    if !list(before, "schedulingGates").is_empty() {
        free.push("nodeSelector");
        same = with_nodes_of(same, before);
    }
    let Some(fields) = same.as_object_mut() else { return false };
    for field in free {
        match before.get(field) {
            Some(value) => fields.insert(field.to_owned(), value.clone()),
            None => fields.remove(field),
        };
    }
    same != *before
}

/// A spec with another's node affinity.
fn with_nodes_of(mut spec: Value, other: &Value) -> Value {
    let mut affinity = spec["affinity"].as_object().cloned().unwrap_or_default();
    affinity.remove("nodeAffinity");
    if is_set(&other["affinity"], "nodeAffinity") {
        affinity.insert("nodeAffinity".to_owned(), other["affinity"]["nodeAffinity"].clone());
    }
    if let Some(fields) = spec.as_object_mut() {
        if affinity.is_empty() && !is_set(other, "affinity") {
            fields.remove("affinity");
        } else {
            fields.insert("affinity".to_owned(), Value::Object(affinity));
        }
    }
    spec
}

/// Validates an update of the status.
pub(super) fn status(new: &Value, old: &Value) -> Errors {
    let path = FieldPath::new("status");
    let mut errors = Vec::new();
    let class = |pod: &Value| pod["status"]["qosClass"].clone();
    if class(new) != class(old) {
        errors.push(FieldError::invalid(&path.child("qosClass"), class(new), "field is immutable"));
    }
    errors
}

/// Ephemeral containers can be added, never removed or changed.
pub(super) fn ephemeral_containers(new: &Value, old: &Value) -> Errors {
    let mut errors = pod::whole(new);
    let path = FieldPath::new("spec").child("ephemeralContainers");
    for before in list(&old["spec"], "ephemeralContainers") {
        let name = text(before, "name");
        let now = list(&new["spec"], "ephemeralContainers").iter().find(|now| text(now, "name") == name);
        let what = match now {
            None => "removed",
            Some(now) if now != before => "changed",
            Some(_) => continue,
        };
        let detail = format!("existing ephemeral containers {name:?} may not be {what}\n");
        errors.push(FieldError::forbidden(&path, detail));
    }
    errors
}

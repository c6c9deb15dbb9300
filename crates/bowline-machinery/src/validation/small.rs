//! Kinds with few rules.

use serde_json::Value;

use super::check::{Errors, integer, invalid, is_set, not_negative, supported_or_empty, text};
use super::workload::{at_most_all, share};
use crate::{FieldError, FieldPath, validate_label_selector, validate_qualified_name};

const FIXED: &str = "field is immutable";

pub(super) fn disruption_budget(budget: &Value) -> Errors {
    let (spec, path) = (&budget["spec"], FieldPath::new("spec"));
    let mut errors = Vec::new();
    if is_set(spec, "minAvailable") && is_set(spec, "maxUnavailable") {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid(&path, spec.clone(), detail));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        if is_set(spec, field) {
            errors.extend(share(spec, field, &path));
            errors.extend(at_most_all(spec, field, &path));
        }
    }
    errors.extend(validate_label_selector(&spec["selector"], &path.child("selector")));
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    let (policy, at) = (text(spec, "unhealthyPodEvictionPolicy"), path.child("unhealthyPodEvictionPolicy"));
    errors.extend(supported_or_empty(policy, &policies, &at));
    errors
}

/// The highest priority of a user's class.
const HIGHEST: i64 = 1_000_000_000;

pub(super) fn priority_class(class: &Value) -> Errors {
    let mut errors = Vec::new();
    let (name, value) = (text(&class["metadata"], "name"), integer(class, "value"));
    let known = matches!(
        (name, value),
        ("system-node-critical", 2_000_001_000) | ("system-cluster-critical", 2_000_000_000)
    );
    if name.starts_with("system-") {
        if !known {
            let path = FieldPath::new("metadata").child("name");
            let why = match name {
                "system-node-critical" => {
                    "value of system-node-critical PriorityClass must be 2000001000".to_owned()
                }
                "system-cluster-critical" => {
                    "value of system-cluster-critical PriorityClass must be 2000000000".to_owned()
                }
                _ => format!("{name} is not a known system priority class"),
            };
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            );
            errors.push(FieldError::forbidden(&path, detail));
        }
    } else if value > HIGHEST {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        errors.push(FieldError::forbidden(&FieldPath::new("value"), detail));
    }
    let policies = ["PreemptLowerPriority", "Never"];
    let policy = text(class, "preemptionPolicy");
    errors.extend(supported_or_empty(policy, &policies, &FieldPath::new("preemptionPolicy")));
    errors
}

pub(super) fn priority_class_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Vec::new();
    if integer(new, "value") != integer(old, "value") {
        let detail = "may not be changed in an update.";
        errors.push(FieldError::forbidden(&FieldPath::new("value"), detail));
    }
    errors.extend(fixed(new, old, &["preemptionPolicy"]));
    errors
}

fn fixed(new: &Value, old: &Value, fields: &[&str]) -> Errors {
    let changed = fields.iter().filter(|field| new[**field] != old[**field]);
    changed.map(|field| FieldError::invalid(&FieldPath::new(field), new[*field].clone(), FIXED)).collect()
}

pub(super) fn lease(lease: &Value) -> Errors {
    let (spec, path) = (&lease["spec"], FieldPath::new("spec"));
    let mut errors = Vec::new();
    if let Some(seconds) = spec["leaseDurationSeconds"].as_i64().filter(|seconds| *seconds <= 0) {
        let path = path.child("leaseDurationSeconds");
        errors.push(FieldError::invalid(&path, seconds, "must be greater than 0"));
    }
    errors.extend(not_negative(spec, "leaseTransitions", &path));
    errors
}

pub(super) fn storage_class(class: &Value) -> Errors {
    let path = FieldPath::new("provisioner");
    let mut errors = match text(class, "provisioner") {
        "" => vec![FieldError::required(&path, "")],
        provisioner => {
            let lower = provisioner.to_ascii_lowercase();
            invalid(&path, provisioner, validate_qualified_name(&lower))
        }
    };
    let policies = ["Delete", "Retain"];
    let policy = text(class, "reclaimPolicy");
    errors.extend(supported_or_empty(policy, &policies, &FieldPath::new("reclaimPolicy")));
    let modes = ["Immediate", "WaitForFirstConsumer"];
    let mode = text(class, "volumeBindingMode");
    errors.extend(supported_or_empty(mode, &modes, &FieldPath::new("volumeBindingMode")));
    errors
}

pub(super) fn storage_class_update(new: &Value, old: &Value) -> Errors {
    fixed(new, old, &["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"])
}

pub(super) fn runtime_class(class: &Value) -> Errors {
    let path = FieldPath::new("handler");
    let handler = text(class, "handler");
    if handler.is_empty() {
        return vec![FieldError::required(&path, "")];
    }
    super::check::dns_label(handler, &path)
}

/// Validates an event in the form of the core group. `reporter` is the name of `reportingComponent` in the event's own
/// group.
pub(super) fn event(event: &Value, reporter: &str) -> Errors {
    let mut errors = Vec::new();
    let namespace = text(&event["metadata"], "namespace");
    let about = text(&event["involvedObject"], "namespace");
    let path = FieldPath::new("involvedObject").child("namespace");
    let mismatch = || FieldError::invalid(&path, about, "does not match event.namespace");
    if event["eventTime"].is_null() {
        let matches = if about.is_empty() { matches!(namespace, "" | "default") } else { about == namespace };
        if !matches {
            errors.push(mismatch());
        }
    } else {
        if about.is_empty() && !matches!(namespace, "default" | "kube-system") {
            errors.push(mismatch());
        }
        let (controller, path) = (text(event, "reportingComponent"), FieldPath::new(reporter));
        if controller.is_empty() {
            errors.push(FieldError::required(&path, ""));
        }
        errors.extend(invalid(&path, controller, validate_qualified_name(controller)));
        for (field, limit) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
            let (value, path) = (text(event, field), FieldPath::new(field));
            if value.is_empty() {
                errors.push(FieldError::required(&path, ""));
            } else if value.len() > limit {
                let detail = format!("can have at most {limit} characters");
                errors.push(FieldError::invalid(&path, "", detail));
            }
        }
        if text(event, "message").len() > 1024 {
            let path = FieldPath::new("message");
            errors.push(FieldError::invalid(&path, "", "can have at most 1024 characters"));
        }
    }
    errors
}

/// Validates an event of `events.k8s.io`, which must not set fields of the core group only.
pub(super) fn new_event(core: &Value) -> Errors {
    let mut errors = event(core, "reportingController");
    let series = &core["series"];
    if series.is_object() {
        if integer(series, "count") < 2 {
            errors.push(FieldError::invalid(&FieldPath::new("series.count"), "", "should be at least 2"));
        }
        if series["lastObservedTime"].is_null() {
            errors.push(FieldError::required(&FieldPath::new("series.lastObservedTime"), ""));
        }
    }
    if core["eventTime"].is_null() {
        errors.push(FieldError::required(&FieldPath::new("eventTime"), ""));
    }
    let kind = text(core, "type");
    if !matches!(kind, "Normal" | "Warning") {
        let detail = format!("has invalid value: {kind}");
        errors.push(FieldError::invalid(&FieldPath::new("type"), "", detail));
    }
    let set = |field: &str| match &core[field] {
        Value::Null => false,
        Value::Number(number) => number.as_i64() != Some(0),
        Value::Object(fields) => fields.values().any(|value| value != ""),
        _ => true,
    };
    for field in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        if set(field) {
            errors.push(FieldError::invalid(&FieldPath::new(field), "", "needs to be unset"));
        }
    }
    errors
}

//! Autoscalers.

use serde_json::Value;

use super::check::{Errors, integer, invalid, is_set, items, list, text};
use crate::{FieldError, FieldPath, Quantity, validate_path_segment_name};

const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

pub(super) fn create(hpa: &Value) -> Errors {
    whole(hpa, None)
}

pub(super) fn update(new: &Value, old: &Value) -> Errors {
    whole(new, Some(old))
}

fn whole(hpa: &Value, old: Option<&Value>) -> Errors {
    let (spec, path) = (&hpa["spec"], FieldPath::new("spec"));
    let mut errors = Vec::new();
    let least = spec["minReplicas"].as_i64();
    if let Some(least) = least.filter(|least| *least < 1) {
        let detail = "must be greater than or equal to 1";
        errors.push(FieldError::invalid(&path.child("minReplicas"), least, detail));
    }
    let (most, at) = (integer(spec, "maxReplicas"), path.child("maxReplicas"));
    if most == 0 {
        errors.push(FieldError::required(&at, "must be set and greater than 0"));
    } else if most < 0 {
        errors.push(FieldError::invalid(&at, most, "must be greater than or equal to 1"));
    }
    if least.is_some_and(|least| most < least) {
        errors.push(FieldError::invalid(&at, most, "must be greater than or equal to `minReplicas`"));
    }
    errors.extend(reference(&spec["scaleTargetRef"], &path.child("scaleTargetRef")));
    let target = |hpa: &Value, field: &str| text(&hpa["spec"]["scaleTargetRef"], field).to_owned();
    let known = old.is_some_and(|old| {
        ["apiVersion", "kind"].iter().all(|field| target(old, field) == target(hpa, field))
    });
    if !known {
        errors.extend(group(&spec["scaleTargetRef"], &path.child("scaleTargetRef").child("apiVersion")));
    }
    for (metric, path) in items(spec, "metrics", &path) {
        errors.extend(self::metric(metric, &path));
    }
    let elsewhere = |metric: &Value| matches!(text(metric, "type"), "Object" | "External");
    if least == Some(0) && !list(spec, "metrics").iter().any(elsewhere) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden(&path.child("metrics"), detail));
    }
    errors
}

/// Every scalable kind has a group, except `ReplicationController`.
fn group(reference: &Value, path: &FieldPath) -> Option<FieldError> {
    let version = text(reference, "apiVersion");
    let detail = match version.split('/').count() {
        _ if version.is_empty() => "apiVersion must specify API group".to_owned(),
        1 => "apiVersion must specify API group".to_owned(),
        2 => return None,
        _ => format!("unexpected GroupVersion string: {version}"),
    };
    let oldest = text(reference, "kind") == "ReplicationController" && !version.contains('/');
    (!oldest).then(|| FieldError::invalid(path, version, detail))
}

fn reference(reference: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    for field in ["kind", "name"] {
        match text(reference, field) {
            "" => errors.push(FieldError::required(&path.child(field), "")),
            value => errors.extend(invalid(&path.child(field), value, validate_path_segment_name(value))),
        }
    }
    errors
}

fn metric(metric: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    let kind = text(metric, "type");
    let kinds = SOURCES.map(|(kind, _)| kind);
    if kind.is_empty() {
        errors.push(FieldError::required(&path.child("type"), "must specify a metric source type"));
    }
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported(&path.child("type"), kind, &kinds));
    }
    let source = &metric["resource"];
    if source.is_object() {
        errors.extend(resource(source, &path.child("resource")));
    }
    match SOURCES.iter().find(|(known, _)| *known == kind) {
        Some((_, field)) if !is_set(metric, field) => {
            let detail = "must populate information for the given metric source";
            errors.push(FieldError::required(&path.child(field), detail));
        }
        Some(_) => {}
        None => errors.push(FieldError::not_supported(&path.child("type"), kind, &kinds)),
    }
    let present: Vec<_> = SOURCES.iter().filter(|(_, field)| is_set(metric, field)).collect();
    if present.len() > 1 {
        for (_, field) in present.iter().filter(|(known, _)| *known != kind) {
            let detail = "must populate the given metric source only";
            errors.push(FieldError::forbidden(&path.child(field), detail));
        }
    }
    errors
}

fn resource(source: &Value, path: &FieldPath) -> Errors {
    let (target, at) = (&source["target"], path.child("target"));
    let mut errors = Vec::new();
    if text(source, "name").is_empty() {
        errors.push(FieldError::required(&path.child("name"), "must specify a resource name"));
    }
    errors.extend(self::target(target, &at));
    let (utilization, value) = (is_set(target, "averageUtilization"), is_set(target, "averageValue"));
    if !utilization && !value {
        let detail = "must set either a target raw value or a target utilization";
        errors.push(FieldError::required(&at.child("averageUtilization"), detail));
    }
    if utilization && value {
        let detail = "may not set both a target raw value and a target utilization";
        errors.push(FieldError::forbidden(&at.child("averageValue"), detail));
    }
    errors
}

fn target(target: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    let kind = text(target, "type");
    if kind.is_empty() {
        errors.push(FieldError::required(&path.child("type"), "must specify a metric target type"));
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(&path.child("type"), kind, detail));
    }
    for field in ["value", "averageValue"] {
        let Some(value) = target.get(field).filter(|value| !value.is_null()) else { continue };
        let positive =
            Quantity::from_value(value).is_ok_and(|value| !value.is_zero() && !value.is_negative());
        if !positive {
            errors.push(FieldError::invalid(&path.child(field), value.clone(), "must be positive"));
        }
    }
    if let Some(utilization) = target["averageUtilization"].as_i64().filter(|value| *value < 1) {
        let path = path.child("averageUtilization");
        errors.push(FieldError::invalid(&path, utilization, "must be greater than 0"));
    }
    errors
}

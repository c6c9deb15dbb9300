//! Scheduling of pods: affinity, tolerations, gates, and topology spread.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::{Errors, invalid, is_set, items, list, supported_or_empty, text, texts};
use super::container::label_name;
use crate::{
    FieldError, FieldPath, validate_dns1123_label, validate_label_selector, validate_label_value,
    validate_qualified_name,
};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn affinity(affinity: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    let (nodes, at) = (&affinity["nodeAffinity"], path.child("nodeAffinity"));
    if is_set(nodes, REQUIRED) {
        errors.extend(node_selector(&nodes[REQUIRED], &at.child(REQUIRED)));
    }
    for (term, path) in items(nodes, PREFERRED, &at) {
        errors.extend(weight(term, &path));
        errors.extend(node_term(&term["preference"], &path.child("preference")));
    }
    for field in ["podAffinity", "podAntiAffinity"] {
        let (pods, at) = (&affinity[field], path.child(field));
        for (term, path) in items(pods, REQUIRED, &at) {
            errors.extend(pod_term(term, &path));
        }
        for (term, path) in items(pods, PREFERRED, &at) {
            errors.extend(weight(term, &path));
            errors.extend(pod_term(&term["podAffinityTerm"], &path.child("podAffinityTerm")));
        }
    }
    errors
}

fn weight(term: &Value, path: &FieldPath) -> Option<FieldError> {
    let weight = term["weight"].as_i64().unwrap_or(0);
    let right = (1..=100).contains(&weight);
    (!right).then(|| FieldError::invalid(&path.child("weight"), weight, "must be in the range 1-100"))
}

/// Validates a node selector, in a pod or in a volume.
pub(super) fn node_selector(selector: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    if list(selector, "nodeSelectorTerms").is_empty() {
        let detail = "must have at least one node selector term";
        errors.push(FieldError::required(&path.child("nodeSelectorTerms"), detail));
    }
    for (term, path) in items(selector, "nodeSelectorTerms", path) {
        errors.extend(node_term(term, &path));
    }
    errors
}

fn node_term(term: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    for (requirement, path) in items(term, "matchExpressions", path) {
        let values = list(requirement, "values");
        let at = path.child("values");
        match text(requirement, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(&at, detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(&at, detail));
            }
            "Gt" | "Lt" if values.len() != 1 => {
                let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errors.push(FieldError::required(&at, detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => {
                let detail = "not a valid selector operator";
                errors.push(FieldError::invalid(&path.child("operator"), other, detail));
            }
        }
        errors.extend(label_name(text(requirement, "key"), &path.child("key")));
        for (index, value) in texts(&requirement["values"]).enumerate() {
            errors.extend(invalid(&at.index(index), value, validate_label_value(value)));
        }
    }
    errors
}

fn pod_term(term: &Value, path: &FieldPath) -> Errors {
    let mut errors = validate_label_selector(&term["labelSelector"], &path.child("labelSelector"));
    errors.extend(validate_label_selector(&term["namespaceSelector"], &path.child("namespaceSelector")));
    for name in texts(&term["namespaces"]) {
        errors.extend(invalid(&path.child("namespace"), name, validate_dns1123_label(name)));
    }
    let (key, at) = (text(term, "topologyKey"), path.child("topologyKey"));
    if key.is_empty() {
        errors.push(FieldError::required(&at, "can not be empty"));
    }
    errors.extend(label_name(key, &at));
    errors
}

pub(super) fn gates(spec: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    let mut names = BTreeSet::new();
    for (gate, path) in items(spec, "schedulingGates", path) {
        let name = text(gate, "name");
        errors.extend(invalid(&path, name, validate_qualified_name(name)));
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&path, name));
        }
    }
    errors
}

pub(super) fn spread(spec: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    let all = list(spec, "topologySpreadConstraints");
    let pair = |constraint: &Value| {
        (text(constraint, "topologyKey").to_owned(), text(constraint, "whenUnsatisfiable").to_owned())
    };
    for (index, (constraint, path)) in items(spec, "topologySpreadConstraints", path).enumerate() {
        let skew = constraint["maxSkew"].as_i64().unwrap_or(0);
        if skew <= 0 {
            errors.push(FieldError::invalid(&path.child("maxSkew"), skew, "must be greater than zero"));
        }
        let (key, action) = pair(constraint);
        if key.is_empty() {
            errors.push(FieldError::required(&path.child("topologyKey"), "can not be empty"));
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        if !actions.contains(&action.as_str()) {
            let path = path.child("whenUnsatisfiable");
            errors.push(FieldError::not_supported(&path, action.as_str(), &actions));
        }
        if all[index + 1..].iter().any(|other| pair(other) == pair(constraint)) {
            let path = path.child("{topologyKey, whenUnsatisfiable}");
            errors.push(FieldError::duplicate(&path, format!("{{{key}, {action}}}")));
        }
        let selector = path.child("labelSelector");
        errors.extend(validate_label_selector(&constraint["labelSelector"], &selector));
    }
    errors
}

pub(super) fn tolerations(spec: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    for (toleration, path) in items(spec, "tolerations", path) {
        let of = |field: &str| text(toleration, field);
        let (operator, effect) = (path.child("operator"), path.child("effect"));
        if !of("key").is_empty() {
            errors.extend(label_name(of("key"), &path.child("key")));
        } else if of("operator") != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(&operator, of("operator"), detail));
        }
        if is_set(toleration, "tolerationSeconds") && of("effect") != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(&effect, of("effect"), detail));
        }
        match of("operator") {
            "Equal" | "" => {
                let wrong = validate_label_value(of("value"));
                if !wrong.is_empty() {
                    errors.push(FieldError::invalid(&operator, of("value"), wrong.join(";")));
                }
            }
            "Exists" if !of("value").is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(&operator, of("value"), detail));
            }
            "Exists" => {}
            "Lt" | "Gt" => {
                let supported = ["Equal", "Exists", "Lt", "Gt"];
                errors.push(FieldError::not_supported(&operator, of("operator"), &supported));
            }
            other => errors.push(FieldError::not_supported(&operator, other, &["Equal", "Exists"])),
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        errors.extend(supported_or_empty(of("effect"), &effects, &effect));
    }
    errors
}

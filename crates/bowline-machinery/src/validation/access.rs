//! Roles and role bindings.

use serde_json::Value;

use super::check::{Errors, dns_subdomain, invalid, is_set, items, list, text};
use crate::{FieldError, FieldPath, validate_label_selector, validate_path_segment_name};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Validates a `Role` or `ClusterRole`.
pub(super) fn role(role: &Value, namespaced: bool) -> Errors {
    let mut errors = Vec::new();
    for (rule, path) in items(role, "rules", &FieldPath::root()) {
        errors.extend(policy_rule(rule, namespaced, &path));
    }
    let aggregation = &role["aggregationRule"];
    if aggregation.is_object() {
        let path = FieldPath::new("aggregationRule");
        if list(aggregation, "clusterRoleSelectors").is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(FieldError::required(&path.child("clusterRoleSelectors"), detail));
        }
        for (selector, path) in items(aggregation, "clusterRoleSelectors", &path) {
            errors.extend(validate_label_selector(selector, &path));
        }
    }
    errors
}

fn policy_rule(rule: &Value, namespaced: bool, path: &FieldPath) -> Errors {
    let has = |field: &str| !list(rule, field).is_empty();
    let mut errors = Vec::new();
    if !has("verbs") {
        let detail = "verbs must contain at least one value";
        errors.push(FieldError::required(&path.child("verbs"), detail));
    }
    if has("nonResourceURLs") {
        let (path, urls) = (path.child("nonResourceURLs"), &rule["nonResourceURLs"]);
        if namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            errors.push(FieldError::invalid(&path, urls.clone(), detail));
        }
        if has("apiGroups") || has("resources") || has("resourceNames") {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(FieldError::invalid(&path, urls.clone(), detail));
        }
        return errors;
    }
    for (field, what) in [("apiGroups", "api group"), ("resources", "resource")] {
        if !has(field) {
            let detail = format!("resource rules must supply at least one {what}");
            errors.push(FieldError::required(&path.child(field), detail));
        }
    }
    errors
}

/// Validates a `RoleBinding` or `ClusterRoleBinding`.
pub(super) fn binding(binding: &Value, namespaced: bool) -> Errors {
    let (reference, path) = (&binding["roleRef"], FieldPath::new("roleRef"));
    let mut errors = Vec::new();
    let group = text(reference, "apiGroup");
    if group != GROUP {
        errors.push(FieldError::not_supported(&path.child("apiGroup"), group, &[GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let kind = text(reference, "kind");
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported(&path.child("kind"), kind, kinds));
    }
    match text(reference, "name") {
        "" => errors.push(FieldError::required(&path.child("name"), "")),
        name => errors.extend(invalid(&path.child("name"), name, validate_path_segment_name(name))),
    }
    for (subject, path) in items(binding, "subjects", &FieldPath::root()) {
        errors.extend(self::subject(subject, namespaced, &path));
    }
    errors
}

pub(super) fn binding_update(new: &Value, old: &Value, namespaced: bool) -> Errors {
    let mut errors = binding(new, namespaced);
    let (now, before) = (&new["roleRef"], &old["roleRef"]);
    if now != before {
        let field = |name: &str| Value::from(text(now, name)).to_string();
        let shown = format!(
            r#"{{"APIGroup":{},"Kind":{},"Name":{}}}"#,
            field("apiGroup"),
            field("kind"),
            field("name")
        );
        let path = FieldPath::new("roleRef");
        errors.push(FieldError::invalid_shown(&path, now.clone(), shown, "cannot change roleRef"));
    }
    errors
}

fn subject(subject: &Value, namespaced: bool, path: &FieldPath) -> Errors {
    let (name, group) = (text(subject, "name"), text(subject, "apiGroup"));
    let mut errors = Vec::new();
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.extend(dns_subdomain(name, &path.child("name")));
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(&path.child("apiGroup"), group, &[""]));
            }
            if !namespaced && !is_set(subject, "namespace") {
                errors.push(FieldError::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" if group != GROUP => {
            errors.push(FieldError::not_supported(&path.child("apiGroup"), group, &[GROUP]));
        }
        "User" | "Group" => {}
        kind => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(&path.child("kind"), kind, &kinds));
        }
    }
    errors
}

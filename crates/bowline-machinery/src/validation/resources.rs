//! Requests and limits of containers and pods.

use serde_json::Value;

use super::check::{Errors, invalid};
use crate::{FieldError, FieldPath, Quantity, validate_qualified_name};

/// Validates requests and limits, of a container or of a whole pod.
pub(super) fn requirements(resources: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    let (limits_path, requests_path) = (path.child("limits"), path.child("requests"));
    for (name, value) in resources["limits"].as_object().into_iter().flatten() {
        errors.extend(amount(name, value, &limits_path.key(name)));
    }
    for (name, value) in resources["requests"].as_object().into_iter().flatten() {
        errors.extend(amount(name, value, &requests_path.key(name)));
        let overcommits = is_native(name) && !is_huge_pages(name);
        let limit = resources["limits"].get(name).and_then(|limit| Quantity::from_value(limit).ok());
        let request = Quantity::from_value(value).ok();
        match (request, limit) {
            (Some(request), Some(limit)) => {
                let relation = if request != limit && !overcommits {
                    "equal to"
                } else if request > limit {
                    "less than or equal to"
                } else {
                    continue;
                };
                let detail = format!("must be {relation} {name} limit of {limit}");
                errors.push(FieldError::invalid(&requests_path, request.to_string(), detail));
            }
            (_, None) if !overcommits => {
                let detail = "Limit must be set for non overcommitable resources";
                errors.push(FieldError::required(&limits_path, detail));
            }
            _ => {}
        }
    }
    errors
}

fn amount(name: &str, value: &Value, path: &FieldPath) -> Errors {
    let mut errors = container_resource(name, path);
    let Ok(quantity) = Quantity::from_value(value) else { return errors };
    errors.extend(not_negative(&quantity, path));
    let whole = quantity.milli_value().is_none_or(|value| value % 1000 == 0);
    if is_extended(name) && !whole {
        errors.push(FieldError::invalid(path, quantity.to_string(), "must be an integer"));
    }
    errors
}

/// Checks that a quantity is not negative.
pub(super) fn not_negative(quantity: &Quantity, path: &FieldPath) -> Option<FieldError> {
    let detail = "must be greater than or equal to 0";
    quantity.is_negative().then(|| FieldError::invalid(path, quantity.to_string(), detail))
}

fn container_resource(name: &str, path: &FieldPath) -> Errors {
    let mut errors = invalid(path, name, validate_qualified_name(name));
    if errors.is_empty() && !name.contains('/') && !is_standard(name) {
        let detail = "must be a standard resource type or fully qualified";
        errors.push(FieldError::invalid(path, name, detail));
    }
    if !name.contains('/') {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_huge_pages(name) {
            let detail = "must be a standard resource for containers";
            errors.push(FieldError::invalid(path, name, detail));
        }
    } else if !is_native(name) && !is_extended(name) {
        let detail = "doesn't follow extended resource name standard";
        errors.push(FieldError::invalid(path, name, detail));
    }
    errors
}

fn is_standard(name: &str) -> bool {
    let plain = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
    matches!(plain, "cpu" | "memory" | "ephemeral-storage" | "storage")
        || matches!(
            name,
            "pods"
                | "resourcequotas"
                | "services"
                | "replicationcontrollers"
                | "secrets"
                | "configmaps"
                | "persistentvolumeclaims"
                | "services.nodeports"
                | "services.loadbalancers"
        )
        || is_huge_pages(name)
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether Kubernetes itself defines the name.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && validate_qualified_name(&format!("requests.{name}")).is_empty()
}

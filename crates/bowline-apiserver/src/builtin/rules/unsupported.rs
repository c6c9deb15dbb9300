//! Warnings about objects that this server stores but does not act on.

use serde_json::Value;

/// Webhooks and policies are kept.
pub(super) fn admission(object: &Value) -> Vec<String> {
    let what = if object.get("webhooks").is_some() { "admission webhooks" } else { "admission policies" };
    vec![format!("{what} are not supported by this server yet: this object is stored, and nothing is called")]
}

/// Other API servers are not asked.
pub(super) fn api_service(object: &Value) -> Vec<String> {
    if object.pointer("/spec/service").is_none_or(Value::is_null) {
        return Vec::new();
    }
    vec!["aggregation is not supported by this server: the service of this object is not asked".to_owned()]
}

/// Pods are not held against the security standard of their namespace.
pub(super) fn namespace(object: &Value) -> Vec<String> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    let enforced = labels.filter(|(label, _)| *label == "pod-security.kubernetes.io/enforce");
    let ignored = enforced.filter(|(_, level)| *level != "privileged");
    ignored
        .map(|(label, _)| {
            format!("{label}: pod security is not supported by this server yet, and not enforced")
        })
        .collect()
}

/// Quotas are kept.
pub(super) fn quota(_object: &Value) -> Vec<String> {
    vec![
        "resource quotas are not supported by this server yet: this one is stored, and not enforced"
            .to_owned(),
    ]
}

//! Kinds with few defaults.

use serde_json::{Value, json};

use crate::base64;

use super::fill::{Object, absent, child, each, empty, made, quantities, text};

pub(super) fn secret(secret: &mut Object) {
    empty(secret, "type", "Opaque");
    // Values of `stringData` are stored as base64.
    let Some(Value::Object(plain)) = secret.remove("stringData") else { return };
    let data = made(secret, "data");
    for (name, text) in plain {
        data.insert(name, base64::encode(text.as_str().unwrap_or_default().as_bytes()).into());
    }
}

pub(super) fn namespace(namespace: &mut Object) {
    let metadata = made(namespace, "metadata");
    let name = text(metadata, "name").to_owned();
    if !name.is_empty() {
        made(metadata, "labels").insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
    empty(made(namespace, "status"), "phase", "Active");
}

pub(super) fn node(node: &mut Object) {
    let status = made(node, "status");
    quantities(status, &["capacity", "allocatable"]);
    if let Some(capacity) = status.get("capacity").filter(|capacity| !capacity.is_null()).cloned() {
        absent(status, "allocatable", capacity);
    }
}

pub(super) fn limit_range(range: &mut Object) {
    for item in child(range, "spec").into_iter().flat_map(|spec| each(spec, "limits")) {
        quantities(item, &["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]);
        if text(item, "type") != "Container" {
            continue;
        }
        let list = |item: &Object, field: &str| {
            item.get(field).and_then(Value::as_object).cloned().unwrap_or_default()
        };
        let (max, min) = (list(item, "max"), list(item, "min"));
        let mut limits = list(item, "default");
        add(&mut limits, &max);
        let mut requests = list(item, "defaultRequest");
        add(&mut requests, &limits);
        add(&mut requests, &min);
        for (field, values) in [("default", limits), ("defaultRequest", requests)] {
            if !values.is_empty() {
                item.insert(field.to_owned(), Value::Object(values));
            }
        }
    }
}

/// Adds missing fields.
fn add(to: &mut Object, from: &Object) {
    for (name, value) in from {
        to.entry(name.clone()).or_insert_with(|| value.clone());
    }
}

pub(super) fn resource_quota(quota: &mut Object) {
    for part in ["spec", "status"] {
        if let Some(part) = child(quota, part) {
            quantities(part, &["hard", "used"]);
        }
    }
}

pub(super) fn role_binding(binding: &mut Object) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    empty(made(binding, "roleRef"), "apiGroup", GROUP);
    for subject in each(binding, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            empty(subject, "apiGroup", GROUP);
        }
    }
}

pub(super) fn priority_class(class: &mut Object) {
    absent(class, "preemptionPolicy", "PreemptLowerPriority");
}

pub(super) fn webhooks(configuration: &mut Object) {
    for webhook in each(configuration, "webhooks") {
        self::webhook(webhook);
    }
}

pub(super) fn mutating_webhooks(configuration: &mut Object) {
    for webhook in each(configuration, "webhooks") {
        self::webhook(webhook);
        absent(webhook, "reinvocationPolicy", "Never");
    }
}

fn webhook(webhook: &mut Object) {
    absent(webhook, "failurePolicy", "Fail");
    selectors(webhook);
    absent(webhook, "timeoutSeconds", 10);
    if let Some(service) = child(webhook, "clientConfig").and_then(|config| child(config, "service")) {
        absent(service, "port", 443);
    }
    scopes(webhook, "rules");
}

fn selectors(resources: &mut Object) {
    absent(resources, "matchPolicy", "Equivalent");
    absent(resources, "namespaceSelector", json!({}));
    absent(resources, "objectSelector", json!({}));
}

fn scopes(object: &mut Object, rules: &str) {
    for rule in each(object, rules) {
        absent(rule, "scope", "*");
    }
}

/// Admission policies and their bindings.
pub(super) fn admission_policy(policy: &mut Object) {
    let Some(spec) = child(policy, "spec") else { return };
    let is_binding = spec.contains_key("policyName");
    if !is_binding {
        absent(spec, "failurePolicy", "Fail");
    }
    for field in ["matchConstraints", "matchResources"] {
        if let Some(resources) = child(spec, field) {
            selectors(resources);
            scopes(resources, "resourceRules");
            scopes(resources, "excludeResourceRules");
        }
    }
}

pub(super) fn flow_schema(schema: &mut Object) {
    empty(made(schema, "spec"), "matchingPrecedence", 1000);
}

pub(super) fn priority_level(level: &mut Object) {
    let Some(spec) = child(level, "spec") else { return };
    if let Some(exempt) = child(spec, "exempt") {
        absent(exempt, "nominalConcurrencyShares", 0);
        absent(exempt, "lendablePercent", 0);
    }
    if let Some(limited) = child(spec, "limited") {
        absent(limited, "nominalConcurrencyShares", 30);
        absent(limited, "lendablePercent", 0);
        let response = child(limited, "limitResponse");
        if let Some(queuing) = response.and_then(|response| child(response, "queuing")) {
            empty(queuing, "handSize", 8);
            empty(queuing, "queues", 64);
            empty(queuing, "queueLengthLimit", 50);
        }
    }
}

pub(super) fn api_service(service: &mut Object) {
    if let Some(service) = child(service, "spec").and_then(|spec| child(spec, "service")) {
        absent(service, "port", 443);
    }
}

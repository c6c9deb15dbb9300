//! Pods and pod templates.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fill::{Object, absent, child, each, empty, made, quantities, text};
use super::{container, volume};
use crate::Quantity;

/// A pod has defaults that a pod template lacks.
pub(super) fn pod(pod: &mut Object) {
    if let Some(status) = child(pod, "status") {
        pod_ips(status);
    }
    let spec = made(pod, "spec");
    self::spec(spec);
    for list in ["containers", "initContainers"] {
        for container in each(spec, list) {
            if let Some(resources) = child(container, "resources") {
                requests_from_limits(resources);
            }
        }
    }
    pod_requests(spec);
    absent(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork").and_then(Value::as_bool) == Some(true) {
        for list in ["containers", "initContainers"] {
            for port in each(spec, list).flat_map(|container| each(container, "ports")) {
                let number = port.get("containerPort").cloned().unwrap_or_default();
                empty(port, "hostPort", number);
            }
        }
    }
}

/// Sets `podIP` from the first of `podIPs`, or the reverse.
fn pod_ips(status: &mut Object) {
    let first = status.get("podIPs").and_then(|ips| ips.pointer("/0/ip")).cloned();
    match first {
        Some(first) => empty(status, "podIP", first),
        None if !text(status, "podIP").is_empty() => {
            let ip = text(status, "podIP").to_owned();
            status.insert("podIPs".to_owned(), serde_json::json!([{"ip": ip}]));
        }
        None => {}
    }
}

/// A pod template in a field of another object.
pub(super) fn template(object: &mut Object, field: &str) {
    if let Some(template) = child(object, field) {
        spec(made(template, "spec"));
    }
}

fn spec(spec: &mut Object) {
    empty(spec, "dnsPolicy", "ClusterFirst");
    empty(spec, "restartPolicy", "Always");
    absent(spec, "securityContext", Object::new());
    absent(spec, "terminationGracePeriodSeconds", 30);
    empty(spec, "schedulerName", "default-scheduler");
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        each(spec, list).for_each(container::container);
    }
    each(spec, "volumes").for_each(volume::volume);
    quantities(spec, &["overhead"]);
    if let Some(resources) = child(spec, "resources") {
        quantities(resources, &["requests", "limits"]);
    }
    service_account(spec);
}

/// `serviceAccount` is deprecated; `serviceAccountName` takes precedence.
fn service_account(spec: &mut Object) {
    let text = |spec: &Object, field: &str| text(spec, field).to_owned();
    let (new, old) = (text(spec, "serviceAccountName"), text(spec, "serviceAccount"));
    let name = if new.is_empty() { old } else { new };
    if !name.is_empty() {
        spec.insert("serviceAccountName".to_owned(), name.clone().into());
        spec.insert("serviceAccount".to_owned(), name.into());
    }
}

/// Sets the requests of a whole pod with limits. They default to the sum of its containers' requests, then to its
/// limits.
fn pod_requests(spec: &mut Object) {
    let Some(resources) = spec.get("resources").and_then(Value::as_object) else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let asked = requested_by_containers(spec);
    let Some(resources) = child(spec, "resources") else { return };
    let mut requests = resources.get("requests").and_then(Value::as_object).cloned().unwrap_or_default();
    let is_pod_level = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    for (name, value) in asked {
        if is_pod_level(&name) && !name.starts_with("hugepages-") {
            requests.entry(name).or_insert(value);
        }
    }
    for (name, value) in limits {
        if is_pod_level(&name) {
            requests.entry(name).or_insert(value);
        }
    }
    if !requests.is_empty() {
        resources.insert("requests".to_owned(), Value::Object(requests));
    }
}

/// The sum of the containers' requests.
fn requested_by_containers(spec: &Object) -> Object {
    let containers = spec.get("containers").and_then(Value::as_array).into_iter().flatten();
    let mut sums: BTreeMap<String, Quantity> = BTreeMap::new();
    for requests in containers.filter_map(|container| container.pointer("/resources/requests")?.as_object()) {
        for (name, value) in requests {
            // Validation refuses invalid and negative quantities later.
            let Ok(quantity) = Quantity::from_value(value) else { continue };
            let sum = sums.get(name).map_or(Some(quantity.clone()), |sum| sum.plus(&quantity));
            sums.insert(name.clone(), sum.unwrap_or(quantity));
        }
    }
    sums.into_iter().map(|(name, quantity)| (name, quantity.canonical().into())).collect()
}

fn requests_from_limits(resources: &mut Object) {
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    let requests = made(resources, "requests");
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

//! Services and other kinds of networking.

use serde_json::{Value, json};

use super::fill::{Object, absent, child, each, empty, made, text};

pub(super) fn service(service: &mut Object) {
    let spec = made(service, "spec");
    empty(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let seconds = spec
                .get("sessionAffinityConfig")
                .and_then(|config| config.pointer("/clientIP/timeoutSeconds"));
            if seconds.is_none_or(Value::is_null) {
                spec.insert(
                    "sessionAffinityConfig".to_owned(),
                    json!({"clientIP": {"timeoutSeconds": 10_800}}),
                );
            }
        }
        _ => {}
    }
    empty(spec, "type", "ClusterIP");
    for port in each(spec, "ports") {
        empty(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or_default();
        empty(port, "targetPort", number);
    }
    let kind = text(spec, "type").to_owned();
    let has_external_ips =
        spec.get("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    let is_external =
        matches!(kind.as_str(), "NodePort" | "LoadBalancer") || kind == "ClusterIP" && has_external_ips;
    if is_external {
        empty(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        absent(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        absent(spec, "allocateLoadBalancerNodePorts", true);
        let balancer = child(service, "status").and_then(|status| child(status, "loadBalancer"));
        for ingress in balancer.into_iter().flat_map(|balancer| each(balancer, "ingress")) {
            if !text(ingress, "ip").is_empty() {
                absent(ingress, "ipMode", "VIP");
            }
        }
    }
}

pub(super) fn endpoints(endpoints: &mut Object) {
    for port in each(endpoints, "subsets").flat_map(|subset| each(subset, "ports")) {
        empty(port, "protocol", "TCP");
    }
}

pub(super) fn endpoint_slice(slice: &mut Object) {
    for port in each(slice, "ports") {
        absent(port, "name", "");
        absent(port, "protocol", "TCP");
    }
}

pub(super) fn network_policy(policy: &mut Object) {
    let spec = made(policy, "spec");
    for rules in ["ingress", "egress"] {
        for port in each(spec, rules).flat_map(|rule| each(rule, "ports")) {
            absent(port, "protocol", "TCP");
        }
    }
    let egress = spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
    let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    empty(spec, "policyTypes", types);
}

pub(super) fn ingress_class(class: &mut Object) {
    if let Some(parameters) = child(class, "spec").and_then(|spec| child(spec, "parameters")) {
        absent(parameters, "scope", "Cluster");
    }
}

//! Pods and pod templates, except containers, volumes and scheduling.

use serde_json::Value;

use super::check::{
    Errors, dns_label, dns_subdomain, invalid, ip, is_set, items, list, one_of, supported_or_empty, text,
    texts,
};
use super::{container, resources, scheduling, volume};
use crate::{
    FieldError, FieldPath, validate_annotations, validate_dns1123_subdomain, validate_labels,
    validate_qualified_name,
};

const RESTART: [&str; 3] = ["Always", "OnFailure", "Never"];
const DNS: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

/// Validates a new pod.
pub(super) fn create(pod: &Value) -> Errors {
    let mut errors = whole(pod);
    let (path, spec) = (FieldPath::new("spec"), &pod["spec"]);
    if !list(spec, "ephemeralContainers").is_empty() {
        errors.push(FieldError::forbidden(&path.child("ephemeralContainers"), "cannot be set on create"));
    }
    if !text(spec, "nodeName").is_empty() && !list(spec, "schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden(&path.child("nodeName"), detail));
    }
    errors
}

/// Rules for every pod, new or updated.
pub(super) fn whole(pod: &Value) -> Errors {
    let (path, pod_spec) = (FieldPath::new("spec"), &pod["spec"]);
    let annotations = FieldPath::new("metadata").child("annotations");
    let mut errors = special_annotations(&pod["metadata"]["annotations"], pod_spec, &annotations);
    errors.extend(spec(pod_spec, true, &path));
    if text(pod_spec, "serviceAccountName").is_empty() {
        for (volume, path) in items(pod_spec, "volumes", &path) {
            for (source, path) in items(&volume["projected"], "sources", &path.child("projected")) {
                if is_set(source, "serviceAccountToken") {
                    let detail = "must not be specified when serviceAccountName is not set";
                    errors.push(FieldError::forbidden(&path.child("serviceAccountToken"), detail));
                }
            }
        }
    }
    for field in ["containers", "initContainers"] {
        for (container, path) in items(pod_spec, field, &path) {
            errors.extend(container::trimmed_image(container, &path));
        }
    }
    errors
}

/// Validates a pod template.
pub(super) fn template(template: &Value, path: &FieldPath) -> Errors {
    let metadata = &template["metadata"];
    let mut errors = validate_labels(&metadata["labels"], &path.child("labels"));
    let annotations = path.child("annotations");
    errors.extend(validate_annotations(&metadata["annotations"], &annotations));
    errors.extend(special_annotations(&metadata["annotations"], &template["spec"], &annotations));
    errors.extend(spec(&template["spec"], false, &path.child("spec")));
    if !list(&template["spec"], "ephemeralContainers").is_empty() {
        let path = path.child("spec").child("ephemeralContainers");
        errors.push(FieldError::forbidden(&path, "ephemeral containers not allowed in pod template"));
    }
    errors
}

fn special_annotations(annotations: &Value, spec: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    let mirror = "kubernetes.io/config.mirror";
    if let Some(value) = annotations[mirror].as_str()
        && text(spec, "nodeName").is_empty()
    {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(FieldError::invalid(&path.key(mirror), value, detail));
    }
    let cost = "controller.kubernetes.io/pod-deletion-cost";
    if let Some(value) = annotations[cost].as_str()
        && !is_cost(value)
    {
        errors.push(FieldError::invalid(&path.key(cost), value, "must be a 32bit integer"));
    }
    errors
}

/// Whether a text is an integer of 32 bits in canonical form.
fn is_cost(value: &str) -> bool {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let leading = digits.starts_with('0') && digits.len() > 1;
    !value.starts_with('+') && !leading && value.parse::<i32>().is_ok()
}

/// `is_pod` is false for a template.
fn spec(spec: &Value, is_pod: bool, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    if !is_set(spec, "terminationGracePeriodSeconds") {
        errors.push(FieldError::required(&path.child("terminationGracePeriodSeconds"), ""));
    }
    let (volumes, wrong) = volume::volumes(spec, path);
    errors.extend(wrong);
    errors.extend(container::containers(spec, &volumes, path));
    if is_set(spec, "resources") {
        errors.extend(resources::requirements(&spec["resources"], &path.child("resources")));
    }
    errors.extend(host_network(spec, is_pod, path));
    errors.extend(one_of(text(spec, "restartPolicy"), &RESTART, &path.child("restartPolicy")));
    errors.extend(one_of(text(spec, "dnsPolicy"), &DNS, &path.child("dnsPolicy")));
    errors.extend(validate_labels(&spec["nodeSelector"], &path.child("nodeSelector")));
    errors.extend(security(spec, path));
    errors.extend(scheduling::affinity(&spec["affinity"], &path.child("affinity")));
    errors.extend(dns(spec, &path.child("dnsConfig")));
    for (gate, path) in items(spec, "readinessGates", path) {
        let kind = text(gate, "conditionType");
        errors.extend(invalid(&path.child("conditionType"), kind, validate_qualified_name(kind)));
    }
    errors.extend(scheduling::gates(spec, path));
    errors.extend(scheduling::spread(spec, path));
    errors.extend(names(spec, path));
    errors.extend(scheduling::tolerations(spec, path));
    for (alias, path) in items(spec, "hostAliases", path) {
        errors.extend(invalid(&path.child("ip"), text(alias, "ip"), ip(text(alias, "ip"))));
        for (name, path) in items(alias, "hostnames", &path) {
            errors.extend(dns_subdomain(name.as_str().unwrap_or_default(), &path));
        }
    }
    for field in ["priorityClassName", "runtimeClassName"] {
        if let Some(name) = spec[field].as_str().filter(|name| !name.is_empty()) {
            errors.extend(invalid(&path.child(field), name, validate_dns1123_subdomain(name)));
        }
    }
    let policies = ["PreemptLowerPriority", "Never"];
    let policy = text(spec, "preemptionPolicy");
    errors.extend(supported_or_empty(policy, &policies, &path.child("preemptionPolicy")));
    errors
}

/// With the host network, host ports and container ports must be equal.
fn host_network(spec: &Value, is_pod: bool, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    if spec["hostNetwork"] != true {
        return errors;
    }
    for (container, path) in items(spec, "containers", path) {
        for (port, path) in items(container, "ports", &path) {
            let host = port["hostPort"].as_i64().unwrap_or(0);
            if (is_pod || host != 0) && host != port["containerPort"].as_i64().unwrap_or(0) {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(&path.child("hostPort"), host, detail));
            }
        }
    }
    errors
}

fn security(spec: &Value, path: &FieldPath) -> Errors {
    let (context, path) = (&spec["securityContext"], path.child("securityContext"));
    let mut errors = container::ids(context, &["fsGroup", "runAsUser", "runAsGroup"], &path);
    for (group, path) in items(context, "supplementalGroups", &path) {
        errors.extend(container::id(group.as_i64().unwrap_or(0), &path));
    }
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(&path.child("shareProcessNamespace"), true, detail));
    }
    let policies = ["Always", "OnRootMismatch"];
    let policy = text(context, "fsGroupChangePolicy");
    errors.extend(supported_or_empty(policy, &policies, &path.child("fsGroupChangePolicy")));
    errors.extend(container::seccomp(&context["seccompProfile"], &path.child("seccompProfile")));
    errors
}

fn dns(spec: &Value, path: &FieldPath) -> Errors {
    let config = &spec["dnsConfig"];
    let mut errors = Vec::new();
    let servers = path.child("nameservers");
    if text(spec, "dnsPolicy") == "None" {
        if !config.is_object() {
            let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
            return vec![FieldError::required(path, detail)];
        }
        if list(config, "nameservers").is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return vec![FieldError::required(&servers, detail)];
        }
    }
    if list(config, "nameservers").len() > 3 {
        let detail = "must not have more than 3 nameservers";
        errors.push(FieldError::invalid(&servers, config["nameservers"].clone(), detail));
    }
    for (index, server) in texts(&config["nameservers"]).enumerate() {
        errors.extend(invalid(&servers.index(index), server, ip(server)));
    }
    let searches = path.child("searches");
    if list(config, "searches").len() > 32 {
        let detail = "must not have more than 32 search paths";
        errors.push(FieldError::invalid(&searches, config["searches"].clone(), detail));
    }
    for (index, search) in texts(&config["searches"]).enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        // Search domains may contain underscores; otherwise they follow the rules of a subdomain.
        let wrong = validate_dns1123_subdomain(&search.replace('_', "a"));
        errors.extend(invalid(&searches.index(index), search, wrong));
    }
    for (option, path) in items(config, "options", path) {
        if text(option, "name").is_empty() {
            errors.push(FieldError::required(&path, "must not be empty"));
        }
    }
    errors
}

/// Validates hostname, subdomain, node name, service account and other names.
fn names(spec: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    for field in ["serviceAccountName", "nodeName"] {
        if !text(spec, field).is_empty() {
            errors.extend(dns_subdomain(text(spec, field), &path.child(field)));
        }
    }
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let detail = "must be between 1 and 2147483647, inclusive";
        errors.push(FieldError::invalid(&path.child("activeDeadlineSeconds"), seconds, detail));
    }
    for field in ["hostname", "subdomain"] {
        if !text(spec, field).is_empty() {
            errors.extend(dns_label(text(spec, field), &path.child(field)));
        }
    }
    errors
}

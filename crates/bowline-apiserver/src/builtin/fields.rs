//! The fields by which objects of built-in kinds can be selected, beside name and namespace.

use bowline_machinery::GroupVersionKind;
use serde_json::Value;

/// What a kind can be selected by.
pub(super) fn names(gvk: &GroupVersionKind) -> &'static [&'static str] {
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Pod") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "Event") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "Event") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("", "Secret") => &["type"],
        ("", "Service") => &["spec.clusterIP", "spec.type"],
        ("", "Namespace") => &["status.phase"],
        ("", "Node") => &["spec.unschedulable"],
        ("", "ReplicationController") | ("apps", "ReplicaSet") => &["status.replicas"],
        ("batch", "Job") => &["status.successful"],
        ("certificates.k8s.io", "CertificateSigningRequest") => &["spec.signerName"],
        _ => &[],
    }
}

/// What is noted beside a stored object: the fields of all resources that it can be selected through.
pub(super) fn stored(gvk: &GroupVersionKind) -> Vec<&'static str> {
    let mut all = names(gvk).to_vec();
    if gvk.kind == "Event" {
        let other = if gvk.group.is_empty() { "events.k8s.io" } else { "" };
        let other = names(&GroupVersionKind::new(other, "v1", "Event"));
        all.extend(other.iter().filter(|name| !names(gvk).contains(name)));
    }
    all
}

/// What somebody is told who selects by another field.
pub(super) fn unknown(gvk: &GroupVersionKind, field: &str) -> String {
    if names(gvk).is_empty() {
        return format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
    }
    format!("field label not supported: {field}")
}

/// The value of one of the fields. Objects are as they are stored.
pub(super) fn value(gvk: &GroupVersionKind, name: &str, object: &Value) -> String {
    let pointer = match (gvk.kind.as_str(), name) {
        ("Pod", "status.podIPs") => "/status/podIP".to_owned(),
        ("Job", "status.successful") => "/status/succeeded".to_owned(),
        ("Event", "source") => return event_source(object),
        ("Event", "reportingController" | "reportingComponent") => "/reportingComponent".to_owned(),
        ("Event", name) => format!("/{}", name.replace("regarding", "involvedObject").replace('.', "/")),
        (_, name) => format!("/{}", name.replace('.', "/")),
    };
    match object.pointer(&pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Bool(value)) => value.to_string(),
        _ => absent(name).to_owned(),
    }
}

/// Numbers and booleans that are not there are zero and false.
fn absent(name: &str) -> &'static str {
    match name {
        "status.replicas" | "status.successful" => "0",
        "spec.unschedulable" | "spec.hostNetwork" => "false",
        _ => "",
    }
}

fn event_source(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let source = text("/source/component");
    if source.is_empty() { text("/reportingComponent").to_owned() } else { source.to_owned() }
}

//! The fields by which objects of built-in kinds can be selected, beside name and namespace.

use bowline_machinery::GroupVersionKind;
use serde_json::Value;

/// Selectable fields of a kind.
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
            "status.nominatedNodeName",
        ],
        ("" | "events.k8s.io", "Event") => &[
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
        ("", "Secret") => &["type"],
        ("", "Service") => &["spec.clusterIP", "spec.type"],
        ("", "Namespace") => &["status.phase"],
        ("", "Node") => &["spec.unschedulable"],
        ("", "ReplicationController") => &["status.replicas"],
        ("batch", "Job") => &["status.successful"],
        ("certificates.k8s.io", "CertificateSigningRequest") => &["spec.signerName"],
        _ => &[],
    }
}

/// The selectable field for a name in a selector, or the error for another name.
pub(super) fn named(gvk: &GroupVersionKind, asked: &str) -> Result<String, String> {
    let known = names(gvk);
    let meant = match (gvk.group.as_str(), gvk.kind.as_str(), asked) {
        (_, _, "metadata.name") => Some("metadata.name".to_owned()),
        // The kinds with a list of their own, and without a namespace, do not have it in that list.
        ("", "Node" | "Namespace", "metadata.namespace")
        | ("certificates.k8s.io", "CertificateSigningRequest", "metadata.namespace") => None,
        (_, _, "metadata.namespace") => Some("metadata.namespace".to_owned()),
        ("", "Pod", "spec.host") => Some("spec.nodeName".to_owned()),
        // It may be named, but has no value.
        ("", "Pod", "status.podIPs") => Some("status.podIPs".to_owned()),
        // The same objects as those of the core group, whose fields have other names.
        ("events.k8s.io", "Event", "reportingController") => Some("reportingComponent".to_owned()),
        ("events.k8s.io", "Event", "reason" | "type") => Some(asked.to_owned()),
        ("events.k8s.io", "Event", asked) => asked
            .strip_prefix("regarding.")
            .map(|field| format!("involvedObject.{field}"))
            .filter(|field| known.contains(&field.as_str())),
        _ => known.contains(&asked).then(|| asked.to_owned()),
    };
    meant.ok_or_else(|| match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("batch", "Job") => format!("field label {asked:?} not supported for Job"),
        _ if known.is_empty() => {
            format!("{asked:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
        _ => format!("field label not supported: {asked}"),
    })
}

/// The value of one of the fields. Objects are as they are stored.
pub(super) fn value(gvk: &GroupVersionKind, name: &str, object: &Value) -> String {
    let pointer = match (gvk.kind.as_str(), name) {
        ("Pod", "status.podIP") => "/status/podIPs/0/ip".to_owned(),
        ("Job", "status.successful") => "/status/succeeded".to_owned(),
        ("Event", "source") => return event_source(object),
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

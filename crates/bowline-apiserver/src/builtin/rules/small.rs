//! Kinds with one small rule each.

use serde_json::{Map, Value, json};

use crate::object::{child_mut, into_map, meta_str, metadata_mut, set_meta_str};
use crate::resource::WriteTarget;

/// Annotation in which `apps/v1` keeps a number that older versions had in the spec.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// A limit range may lack a name.
pub(super) fn name_limit_range(range: &mut Value) {
    if meta_str(range, "name").is_empty() {
        let name = meta_str(range, "uid").to_owned();
        set_meta_str(range, "name", &name);
    }
}

pub(super) fn begin_volume(volume: &mut Value) {
    protect(volume, "kubernetes.io/pv-protection");
    let since = meta_str(volume, "creationTimestamp").to_owned();
    let status = json!({"phase": "Pending", "lastPhaseTransitionTime": since});
    into_map(volume).insert("status".to_owned(), status);
}

/// The time of the last phase transition stays while the phase does.
pub(super) fn update_volume(part: WriteTarget, new: &mut Value, old: &Value) {
    const SINCE: &str = "lastPhaseTransitionTime";
    let same_phase = new.pointer("/status/phase") == old.pointer("/status/phase");
    if part == WriteTarget::Status
        && same_phase
        && let Some(since) = old.pointer("/status/lastPhaseTransitionTime")
    {
        child_mut(new, "status").entry(SINCE).or_insert_with(|| since.clone());
    }
}

pub(super) fn begin_claim(claim: &mut Value) {
    protect(claim, "kubernetes.io/pvc-protection");
    let spec = child_mut(claim, "spec");
    let set = |spec: &Map<String, Value>, field: &str| spec.get(field).is_some_and(|value| !value.is_null());
    // A source is in an old and a new field.
    match (set(spec, "dataSource"), set(spec, "dataSourceRef")) {
        (true, false) => {
            let source = spec["dataSource"].clone();
            spec.insert("dataSourceRef".to_owned(), source);
        }
        (false, true) if spec["dataSourceRef"]["namespace"].as_str().unwrap_or_default().is_empty() => {
            let mut source = spec["dataSourceRef"].clone();
            into_map(&mut source).remove("namespace");
            spec.insert("dataSource".to_owned(), source);
        }
        _ => {}
    }
    into_map(claim).insert("status".to_owned(), json!({"phase": "Pending"}));
}

/// The same for descriptions of volumes.
pub(super) fn begin_attributes(class: &mut Value) {
    protect(class, "kubernetes.io/vac-protection");
}

/// The addresses of a node's pods are in an old and a new field.
pub(super) fn begin_node(node: &mut Value) {
    if let Some(cidr) = node.pointer("/spec/podCIDR").filter(|cidr| cidr.as_str() != Some("")).cloned() {
        child_mut(node, "spec").entry("podCIDRs").or_insert_with(|| json!([cidr]));
    }
}

/// Marks a local API service as available.
pub(super) fn begin_api_service(service: &mut Value) {
    if service.pointer("/spec/service").is_some_and(Value::is_object) {
        return;
    }
    let since = meta_str(service, "creationTimestamp").to_owned();
    let condition = json!({
        "type": "Available",
        "status": "True",
        "lastTransitionTime": since,
        "reason": "Local",
        "message": "Local APIServices are always available",
    });
    into_map(service).insert("status".to_owned(), json!({"conditions": [condition]}));
}

/// Adds the finalizer that protects an object in use (plugin `StorageObjectInUseProtection`).
fn protect(object: &mut Value, finalizer: &str) {
    let finalizers = metadata_mut(object).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(finalizers) = finalizers.as_array_mut()
        && !finalizers.iter().any(|present| present == finalizer)
    {
        finalizers.push(finalizer.into());
    }
}

/// A service account names its secrets without further fields.
pub(super) fn clean_secrets(account: &mut Value) {
    let secrets = account.get_mut("secrets").and_then(Value::as_array_mut);
    for secret in secrets.into_iter().flatten().filter_map(Value::as_object_mut) {
        secret.retain(|field, _| field == "name");
    }
}

fn template_generation(set: &Value) -> i64 {
    let annotations = set.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let text = annotations.and_then(|annotations| annotations[TEMPLATE_GENERATION].as_str());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn set_template_generation(set: &mut Value, generation: i64) {
    let annotations = metadata_mut(set).entry("annotations").or_insert(Value::Null);
    into_map(annotations).insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
}

pub(super) fn begin_template_generation(set: &mut Value) {
    let generation = template_generation(set).max(1);
    set_template_generation(set, generation);
}

pub(super) fn move_template_generation(part: WriteTarget, new: &mut Value, old: &Value) {
    if part == WriteTarget::Main {
        let moved = new.pointer("/spec/template") != old.pointer("/spec/template");
        set_template_generation(new, template_generation(old) + i64::from(moved));
    }
}

/// The requester of a certificate can neither change nor approve the request.
pub(super) fn update_signing_request(part: WriteTarget, new: &mut Value, old: &Value) {
    if part == WriteTarget::Main {
        let spec = old.get("spec").cloned().unwrap_or_default();
        into_map(new).insert("spec".to_owned(), spec);
    }
    if part == WriteTarget::Status {
        let decided = |condition: &Value| matches!(condition["type"].as_str(), Some("Approved" | "Denied"));
        let list = |object: &Value| {
            let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
            conditions.cloned().unwrap_or_default()
        };
        let mut conditions: Vec<_> = list(old).into_iter().filter(decided).collect();
        conditions.extend(list(new).into_iter().filter(|condition| !decided(condition)));
        if !conditions.is_empty() {
            child_mut(new, "status").insert("conditions".to_owned(), conditions.into());
        }
    }
}

//! Subresources of pods: binding and eviction.

mod eviction;

use bowline_machinery::{FieldError, FieldPath, GroupResource, Status};
use serde_json::{Value, json};

use crate::decode::Decoded;
use crate::negotiate;
use crate::object::{self, meta_str, metadata};
use crate::resource::WriteTarget;
use crate::rest::ResourceRequest;
use crate::server::ApiResponse;
use crate::write::Change;

pub(super) use eviction::evict;

/// Puts a pod on a node, once.
pub(super) fn bind(exchange: &ResourceRequest<'_>, name: &str) -> Result<ApiResponse, Status> {
    negotiate::check_json(exchange.headers)?;
    let mut write = exchange.write("CreateOptions")?;
    let checked = exchange.write("CreateOptions")?;
    let binding = parse(exchange.body, "Binding")?;
    if meta_str(&binding, "name") != name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let target = binding.get("target").cloned().unwrap_or_default();
    let node = target.get("name").and_then(Value::as_str).unwrap_or_default();
    let kind = target.get("kind").and_then(Value::as_str).unwrap_or_default();
    let mut errors = Vec::new();
    let path = FieldPath::new("target");
    if !matches!(kind, "" | "Node") {
        errors.push(FieldError::not_supported(&path.child("kind"), kind, &["Node", "<empty>"]));
    }
    if node.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    // kube-apiserver answers with an internal error.
    let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    match errors.as_slice() {
        [] => {}
        [error] => return Err(Status::failure(500, "", error)),
        errors => return Err(Status::failure(500, "", format!("[{}]", errors.join(", ")))),
    }
    let now = object::timestamp(exchange.inner.clock.system_time());
    let modify = |pod: Value| {
        checked.check_bound(&binding, &pod, name)?;
        let binding_of_pods = GroupResource::new("", "pods/binding");
        let conflict = |why: &str| Status::conflict(&binding_of_pods, name, why);
        if metadata(&pod).is_some_and(|metadata| metadata.contains_key("deletionTimestamp")) {
            return Err(conflict(&format!("pod {name} is being deleted, cannot be assigned to a host")));
        }
        let present = pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
        if !present.is_empty() {
            return Err(conflict(&format!("pod {name} is already assigned to node {present:?}")));
        }
        let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
        if gates.is_some_and(|gates| !gates.is_empty()) {
            return Err(conflict(&format!("pod {name} has non-empty .spec.schedulingGates")));
        }
        Ok(Decoded { object: bound(pod, &binding, node, &now), complaints: Vec::new() })
    };
    let outcome = write.update(name, WriteTarget::Binding, Change::Modify(&modify))?;
    exchange.note(&outcome);
    Ok(ApiResponse::json(201, &done()))
}

/// The answer to a request that succeeded without an object to show.
fn done() -> Status {
    let mut status = Status::success(bowline_machinery::StatusDetails::default());
    (status.details, status.code) = (None, 201);
    status
}

fn bound(mut pod: Value, binding: &Value, node: &str, now: &str) -> Value {
    crate::object::strip_kind(&mut pod);
    object::metadata_mut(&mut pod).remove("resourceVersion");
    object::child_mut(&mut pod, "spec").insert("nodeName".to_owned(), node.into());
    for field in ["annotations", "labels"] {
        let added =
            metadata(binding).and_then(|metadata| metadata.get(field)).and_then(Value::as_object).cloned();
        if let Some(added) = added {
            let place = object::metadata_mut(&mut pod).entry(field).or_insert(Value::Null);
            object::into_map(place).extend(added);
        }
    }
    let condition =
        json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    let conditions = object::child_mut(&mut pod, "status").entry("conditions").or_insert_with(|| json!([]));
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.retain(|condition| condition.get("type").and_then(Value::as_str) != Some("PodScheduled"));
        conditions.push(condition);
    }
    pod
}

fn parse(body: &[u8], kind: &str) -> Result<Value, Status> {
    if body.is_empty() {
        return Ok(json!({}));
    }
    let parsed = bowline_machinery::parse_json(body)
        .map_err(|error| Status::bad_request(format!("the {kind} cannot be read: {error}")))?;
    let sent = parsed.value.get("kind").and_then(Value::as_str).unwrap_or(kind);
    if !parsed.value.is_object() || sent != kind {
        return Err(Status::bad_request(format!("{sent} in version \"v1\" cannot be handled as a {kind}")));
    }
    Ok(parsed.value)
}

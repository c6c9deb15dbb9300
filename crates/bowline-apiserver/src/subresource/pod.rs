//! What only pods have: they are bound to a node, and evicted from it.

use bowline_machinery::{FieldError, FieldPath, GroupKind, LabelSelector, Labels, Status, StatusCause};
use bowline_storage::List;
use serde_json::{Value, json};

use crate::decode::Decoded;
use crate::delete::DeleteOptions;
use crate::negotiate;
use crate::object::{self, meta_str, metadata};
use crate::resource::Part;
use crate::rest::Exchange;
use crate::server::Answer;
use crate::write::Change;

/// Puts a pod on a node, once.
pub(super) fn bind(exchange: &Exchange<'_>, name: &str) -> Result<(Answer, bool), Status> {
    negotiate::check_json(exchange.headers)?;
    let binding = parse(exchange.body, "Binding")?;
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
    if !errors.is_empty() {
        return Err(Status::invalid(&GroupKind::new("", "Binding"), name, &errors));
    }
    let now = object::timestamp(exchange.inner.clock.wall());
    let modify = |pod: Value| {
        let conflict = |why: &str| Status::conflict(&exchange.resource.group_resource(), name, why);
        if metadata(&pod).is_some_and(|metadata| metadata.contains_key("deletionTimestamp")) {
            return Err(conflict(&format!("pod {name} is being deleted, cannot be assigned to a host")));
        }
        let present = pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
        if !present.is_empty() {
            return Err(conflict(&format!("pod {name} is already assigned to node {present:?}")));
        }
        Ok(Decoded { object: bound(pod, &binding, node, &now), complaints: Vec::new() })
    };
    let mut write = exchange.write("CreateOptions")?;
    let outcome = write.update(name, Part::Binding, Change::Modify(&modify))?;
    let mut status = Status::success(bowline_machinery::StatusDetails::default());
    (status.details, status.code) = (None, 201);
    Ok((Answer::json(201, &status), outcome.is_commit()))
}

fn bound(mut pod: Value, binding: &Value, node: &str, now: &str) -> Value {
    if let Some(fields) = pod.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
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

/// Deletes a pod, unless a disruption budget forbids it.
pub(super) fn evict(exchange: &Exchange<'_>, name: &str) -> Result<(Answer, bool), Status> {
    negotiate::check_json(exchange.headers)?;
    let eviction = parse(exchange.body, "Eviction")?;
    let sent = meta_str(&eviction, "name");
    if !sent.is_empty() && sent != name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = eviction.get("deleteOptions").filter(|options| !options.is_null());
    let options = options.map_or_else(Vec::new, |options| options.to_string().into_bytes());
    let options = DeleteOptions::of(&options, exchange.query)?;
    let dry_run = options.dry_run()?;
    let key = object::key(exchange.namespace, name);
    let pods = &exchange.resource;
    let record = exchange.inner.store.get(pods.table, &key);
    let record = record.ok_or_else(|| Status::not_found(&pods.group_resource(), name))?;
    let pod = pods.decode(&record.body)?;
    if counts(&pod) {
        spend_budget(exchange, &record.meta, dry_run)?;
    }
    let mut write = exchange.write_with(dry_run);
    let outcome = write.delete(name, &options)?;
    let mut status = Status::success(bowline_machinery::StatusDetails::default());
    (status.details, status.code) = (None, 201);
    Ok((Answer::json(201, &status), outcome.is_commit()))
}

/// Pods that run, or will, need a budget; others may go at any time.
fn counts(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    let deleting = metadata(pod).is_some_and(|metadata| metadata.contains_key("deletionTimestamp"));
    !deleting && !matches!(phase, "Succeeded" | "Failed" | "Pending")
}

/// Takes one disruption from the pod's budget, if it has one.
fn spend_budget(exchange: &Exchange<'_>, labels: &impl Labels, dry_run: bool) -> Result<(), Status> {
    let inner = exchange.inner;
    let Some(budgets) = inner.registry.find("policy", "v1", "poddisruptionbudgets") else { return Ok(()) };
    let prefix = format!("{}/", exchange.namespace.unwrap_or_default());
    let list = List { prefix: &prefix, ..List::default() };
    let listing = inner.store.list(budgets.table, list).map_err(Status::internal)?;
    let mut found = Vec::new();
    for record in &listing.items {
        let budget = budgets.decode(&record.body)?;
        let selector = budget.pointer("/spec/selector").cloned().unwrap_or_default();
        if LabelSelector::from_object(&selector).is_ok_and(|selector| selector.matches(labels)) {
            found.push(budget);
        }
    }
    let budget = match found.as_slice() {
        [] => return Ok(()),
        [budget] => budget,
        _ => {
            return Err(Status::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    let number =
        |field: &str| budget.pointer(&format!("/status/{field}")).and_then(Value::as_i64).unwrap_or(0);
    let allowed = number("disruptionsAllowed");
    if allowed <= 0 {
        let name = meta_str(budget, "name");
        let mut status =
            Status::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.", 0);
        if let Some(details) = &mut status.details {
            details.causes.push(StatusCause {
                reason: Some("DisruptionBudget".to_owned()),
                message: Some(format!(
                    "The disruption budget {name} needs {} healthy pods and has {} currently",
                    number("desiredHealthy"),
                    number("currentHealthy")
                )),
                field: None,
            });
        }
        return Err(status);
    }
    if dry_run {
        return Ok(());
    }
    let modify = |mut budget: Value| {
        if let Some(fields) = budget.as_object_mut() {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        if let Some(left) = budget.pointer_mut("/status/disruptionsAllowed") {
            *left = (allowed - 1).into();
        }
        Ok(Decoded { object: budget, complaints: Vec::new() })
    };
    let mut write = exchange.write_with(false);
    write.resource = &budgets;
    write.update(meta_str(budget, "name"), Part::Status, Change::Modify(&modify)).map(|_| ())
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

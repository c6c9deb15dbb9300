//! Evictions: deletes that a disruption budget has to permit.

use std::sync::Arc;

use bowline_machinery::{LabelSelector, Labels, Status, StatusCause};
use bowline_storage::ListRequest;
use serde_json::{Value, json};

use super::{done, parse};
use crate::decode::Decoded;
use crate::delete::DeleteOptions;
use crate::negotiate;
use crate::object::{self, child_mut, into_map, meta_str, metadata};
use crate::resource::{Resource, WriteTarget};
use crate::rest::ResourceRequest;
use crate::server::ApiResponse;
use crate::write::{self, Change};

/// Reason why an eviction is refused for now.
const VIOLATION: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Deletes a pod, unless a disruption budget forbids it.
pub(in crate::subresource) fn evict(
    exchange: &ResourceRequest<'_>,
    name: &str,
) -> Result<ApiResponse, Status> {
    negotiate::check_json(exchange.headers)?;
    write::check_options(exchange.query, &exchange.query.dry_run, "CreateOptions")?;
    let eviction = parse(exchange.body, "Eviction")?;
    if meta_str(&eviction, "name") != name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = eviction.get("deleteOptions").filter(|options| !options.is_null());
    let options = options.map_or_else(Vec::new, |options| options.to_string().into_bytes());
    let mut options = DeleteOptions::of(&options, exchange.query)?;
    // Unlike for a delete, the query parameters of an eviction count as well.
    if !options.dry_run() {
        options.dry_run = Some(exchange.query.dry_run.clone());
    }
    let key = object::key(exchange.namespace, name);
    let pods = &exchange.resource;
    let record = exchange.inner.store.get(pods.table, &key);
    let record = record.ok_or_else(|| Status::not_found(&pods.group_resource(), name))?;
    let pod = pods.decode(&record.body)?;
    if counts(&pod)
        && let Some((budgets, budget)) = budget_of(exchange, &record.meta)?
        && !may_go_anyway(&pod, &budget)
    {
        spend(exchange, &budgets, &budget, name, options.dry_run())?;
    }
    let mut write = exchange.write_with(options.dry_run());
    if !options.dry_run() {
        tell(exchange, name, &options)?;
    }
    exchange.delete_by(&mut write, name, &options)?;
    Ok(ApiResponse::json(201, &done()))
}

/// Running and pending pods need a budget; others can be evicted at any time.
fn counts(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    let deleting = metadata(pod).is_some_and(|metadata| metadata.contains_key("deletionTimestamp"));
    !deleting && !matches!(phase, "Succeeded" | "Failed" | "Pending")
}

/// The budget that covers a pod.
fn budget_of(
    exchange: &ResourceRequest<'_>,
    labels: &impl Labels,
) -> Result<Option<(Arc<Resource>, Value)>, Status> {
    let inner = exchange.inner;
    let Some(budgets) = inner.registry.find("policy", "v1", "poddisruptionbudgets") else { return Ok(None) };
    let prefix = format!("{}/", exchange.namespace.unwrap_or_default());
    let list = ListRequest { prefix: &prefix, ..ListRequest::default() };
    let listing = inner.store.list(budgets.table, list).map_err(Status::internal)?;
    let mut found = Vec::new();
    for record in &listing.items {
        let budget = budgets.decode(&record.body)?;
        let selector = budget.pointer("/spec/selector").cloned().unwrap_or_default();
        if LabelSelector::from_object(&selector).is_ok_and(|selector| selector.matches(labels)) {
            found.push(budget);
        }
    }
    match (found.pop(), found.is_empty()) {
        (Some(_), false) => {
            let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            Err(Status::failure(500, "", why))
        }
        (budget, _) => Ok(budget.map(|budget| (budgets, budget))),
    }
}

fn number(budget: &Value, pointer: &str) -> i64 {
    budget.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// A pod that is not ready needs no disruption, if enough others are ready or the budget allows it.
fn may_go_anyway(pod: &Value, budget: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    if conditions.into_iter().flatten().any(is_ready) {
        return false;
    }
    let policy = budget.pointer("/spec/unhealthyPodEvictionPolicy").and_then(Value::as_str);
    let wanted = number(budget, "/status/desiredHealthy");
    policy == Some("AlwaysAllow") || wanted > 0 && number(budget, "/status/currentHealthy") >= wanted
}

/// Takes one disruption from a budget.
fn spend(
    exchange: &ResourceRequest<'_>,
    budgets: &Arc<Resource>,
    budget: &Value,
    pod: &str,
    dry_run: bool,
) -> Result<(), Status> {
    let now = object::timestamp(exchange.inner.clock.system_time());
    let modify = |mut budget: Value| {
        check(&budget)?;
        crate::object::strip_kind(&mut budget);
        let generation = number(&budget, "/metadata/generation");
        let left = number(&budget, "/status/disruptionsAllowed") - 1;
        let status = child_mut(&mut budget, "status");
        status.insert("disruptionsAllowed".to_owned(), left.into());
        into_map(status.entry("disruptedPods").or_insert(Value::Null))
            .insert(pod.to_owned(), now.clone().into());
        if left == 0 {
            let condition = json!({
                "type": "DisruptionAllowed",
                "status": "False",
                "observedGeneration": generation,
                "lastTransitionTime": now,
                "reason": "InsufficientPods",
                "message": "",
            });
            put_condition(status.entry("conditions").or_insert_with(|| json!([])), condition);
        }
        Ok(Decoded { object: budget, complaints: Vec::new() })
    };
    let mut write = exchange.write_with(dry_run);
    write.resource = budgets;
    let spent = write.update(meta_str(budget, "name"), WriteTarget::Status, Change::Modify(&modify))?;
    exchange.note(&spent);
    Ok(())
}

/// Whether a budget has a disruption left.
fn check(budget: &Value) -> Result<(), Status> {
    let name = meta_str(budget, "name");
    let refused = |message: String, retry: u16| {
        let mut status = Status::too_many_requests(VIOLATION, retry);
        if let Some(details) = &mut status.details {
            let reason = Some("DisruptionBudget".to_owned());
            details.causes.push(StatusCause { reason, message: Some(message), field: None });
        }
        Err(status)
    };
    if number(budget, "/status/observedGeneration") < number(budget, "/metadata/generation") {
        return refused(format!("The disruption budget {name} is still being processed by the server."), 10);
    }
    if number(budget, "/status/disruptionsAllowed") <= 0 {
        let (needs, has) =
            (number(budget, "/status/desiredHealthy"), number(budget, "/status/currentHealthy"));
        let message =
            format!("The disruption budget {name} needs {needs} healthy pods and has {has} currently");
        return refused(message, 0);
    }
    Ok(())
}

/// Sets the pod's condition `DisruptionTarget`.
fn tell(exchange: &ResourceRequest<'_>, name: &str, options: &DeleteOptions) -> Result<(), Status> {
    let now = object::timestamp(exchange.inner.clock.system_time());
    let modify = |mut pod: Value| {
        options.check_record(
            &exchange.resource,
            meta_str(&pod, "uid"),
            meta_str(&pod, "resourceVersion"),
            name,
        )?;
        crate::object::strip_kind(&mut pod);
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": null,
            "lastTransitionTime": now,
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        });
        let status = child_mut(&mut pod, "status");
        put_condition(status.entry("conditions").or_insert_with(|| json!([])), condition);
        Ok(Decoded { object: pod, complaints: Vec::new() })
    };
    let mut write = exchange.write_with(false);
    let updated = write.update(name, WriteTarget::Status, Change::Modify(&modify))?;
    exchange.note(&updated);
    Ok(())
}

/// Sets a condition; an equal one stays unchanged.
fn put_condition(conditions: &mut Value, condition: Value) {
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|present| present["type"] == condition["type"]) {
        Some(present) if present["status"] == condition["status"] => {}
        Some(present) => *present = condition,
        None => conditions.push(condition),
    }
}

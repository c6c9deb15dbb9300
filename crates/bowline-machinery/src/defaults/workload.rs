//! Workload kinds.

use serde_json::{Value, json};

use super::fill::{Object, absent, child, each, empty, made, text};
use super::{pod, volume};

pub(super) fn deployment(deployment: &mut Object) {
    let spec = made(deployment, "spec");
    pod::template(spec, "template");
    absent(spec, "replicas", 1);
    let strategy = made(spec, "strategy");
    empty(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = made(strategy, "rollingUpdate");
        absent(rolling, "maxUnavailable", "25%");
        absent(rolling, "maxSurge", "25%");
    }
    absent(spec, "revisionHistoryLimit", 10);
    absent(spec, "progressDeadlineSeconds", 600);
}

pub(super) fn daemon_set(set: &mut Object) {
    let spec = made(set, "spec");
    pod::template(spec, "template");
    let strategy = made(spec, "updateStrategy");
    empty(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = made(strategy, "rollingUpdate");
        absent(rolling, "maxUnavailable", 1);
        absent(rolling, "maxSurge", 0);
    }
    absent(spec, "revisionHistoryLimit", 10);
    // An annotation holds a field of the first version.
    let annotations = made(made(set, "metadata"), "annotations");
    absent(annotations, "deprecated.daemonset.template.generation", "0");
}

pub(super) fn stateful_set(set: &mut Object) {
    let spec = made(set, "spec");
    pod::template(spec, "template");
    volume::claim_templates(spec);
    empty(spec, "podManagementPolicy", "OrderedReady");
    let strategy = made(spec, "updateStrategy");
    if text(strategy, "type").is_empty() {
        empty(strategy, "type", "RollingUpdate");
        made(strategy, "rollingUpdate");
    }
    if text(strategy, "type") == "RollingUpdate"
        && let Some(rolling) = child(strategy, "rollingUpdate")
    {
        absent(rolling, "partition", 0);
    }
    let policy = made(spec, "persistentVolumeClaimRetentionPolicy");
    empty(policy, "whenDeleted", "Retain");
    empty(policy, "whenScaled", "Retain");
    absent(spec, "replicas", 1);
    absent(spec, "revisionHistoryLimit", 10);
}

pub(super) fn replica_set(set: &mut Object) {
    let spec = made(set, "spec");
    pod::template(spec, "template");
    absent(spec, "replicas", 1);
}

/// A replication controller takes its selector and its labels from the template.
pub(super) fn replication_controller(controller: &mut Object) {
    let spec = made(controller, "spec");
    pod::template(spec, "template");
    absent(spec, "replicas", 1);
    if let Some(labels) = labels(spec) {
        empty(spec, "selector", labels.clone());
        empty(made(controller, "metadata"), "labels", labels);
    }
}

pub(super) fn job(job: &mut Object) {
    let spec = made(job, "spec");
    job_spec(spec);
    if let Some(labels) = labels(spec) {
        empty(made(job, "metadata"), "labels", labels);
    }
    absent_job_fields(made(job, "spec"));
}

/// Defaults of a job that the template of a cron job lacks.
fn absent_job_fields(spec: &mut Object) {
    let is_set = |spec: &Object, field: &str| spec.get(field).is_some_and(|value| !value.is_null());
    if !is_set(spec, "completions") && !is_set(spec, "parallelism") {
        absent(spec, "completions", 1);
    }
    absent(spec, "parallelism", 1);
    let limit = if is_set(spec, "backoffLimitPerIndex") { i32::MAX } else { 6 };
    absent(spec, "backoffLimit", limit);
    absent(spec, "completionMode", "NonIndexed");
    absent(spec, "suspend", false);
    let policy = if is_set(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    absent(spec, "podReplacementPolicy", policy);
    absent(spec, "manualSelector", false);
}

fn job_spec(spec: &mut Object) {
    pod::template(spec, "template");
    let rules = child(spec, "podFailurePolicy").into_iter().flat_map(|policy| each(policy, "rules"));
    for pattern in rules.flat_map(|rule| each(rule, "onPodConditions")) {
        empty(pattern, "status", "True");
    }
}

pub(super) fn cron_job(job: &mut Object) {
    let spec = made(job, "spec");
    if let Some(template) = child(spec, "jobTemplate") {
        job_spec(made(template, "spec"));
    }
    empty(spec, "concurrencyPolicy", "Allow");
    absent(spec, "suspend", false);
    absent(spec, "successfulJobsHistoryLimit", 3);
    absent(spec, "failedJobsHistoryLimit", 1);
}

/// The labels of the template, if any.
fn labels(spec: &Object) -> Option<Value> {
    let labels = spec.get("template")?.pointer("/metadata/labels")?;
    (labels.is_object() && *labels != json!({})).then(|| labels.clone())
}

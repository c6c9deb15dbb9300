//! Jobs and cron jobs.

use serde_json::Value;

use super::check::{Errors, integer, is_set, items, not_negative, one_of, text};
use super::{pod, schedule, workload};
use crate::{FieldError, FieldPath, validate_dns1123_label, validate_label_selector};

const FIXED: &str = "field is immutable";
const INDEXED_ONLY: &str = "requires indexed completion mode";

pub(super) fn create(job: &Value) -> Errors {
    let mut errors = generated_labels(job);
    errors.extend(selected_spec(&job["spec"], &FieldPath::new("spec")));
    let completions = integer(&job["spec"], "completions");
    if text(&job["spec"], "completionMode") == "Indexed" && completions > 0 {
        let name = text(&job["metadata"], "name");
        let last = format!("{name}-{}", completions - 1);
        if !validate_dns1123_label(&last).is_empty() {
            let path = FieldPath::new("metadata").child("name");
            let detail = format!("will not able to create pod with invalid DNS label: {last}");
            errors.push(FieldError::invalid(&path, name, detail));
        }
    }
    errors
}

pub(super) fn update(new: &Value, old: &Value) -> Errors {
    let mut errors = create(new);
    let path = FieldPath::new("spec");
    let (spec, before) = (&new["spec"], &old["spec"]);
    errors.extend(selected_spec(spec, &path));
    let fixed = |field: &str| {
        let shown = if field == "selector" { workload::shown(&spec[field]) } else { shown(&spec[field]) };
        let changed = spec[field] != before[field];
        changed.then(|| FieldError::invalid_shown(&path.child(field), spec[field].clone(), shown, FIXED))
    };
    // An indexed job can change completions and parallelism together.
    let elastic = text(spec, "completionMode") == "Indexed" && spec["completions"] == spec["parallelism"];
    if !elastic {
        errors.extend(fixed("completions"));
    }
    errors.extend(fixed("selector"));
    errors.extend(changed_template(old, new));
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        errors.extend(fixed(field));
    }
    errors
}

fn shown(value: &Value) -> String {
    value.to_string()
}

/// Checks that the template of a job is unchanged. Scheduling fields, labels and annotations of a suspended job that
/// has not started may change.
fn changed_template(old: &Value, new: &Value) -> Option<FieldError> {
    let (template, before) = (&new["spec"]["template"], &old["spec"]["template"]);
    let mut before = before.clone();
    let waiting = old["spec"]["suspend"] == true && old["status"]["startTime"].is_null();
    if waiting {
        for (part, field) in [
            ("spec", "nodeSelector"),
            ("spec", "tolerations"),
            ("spec", "schedulingGates"),
            ("spec", "affinity"),
            ("metadata", "annotations"),
            ("metadata", "labels"),
        ] {
            let Some(fields) = before[part].as_object_mut() else { continue };
            match template[part].get(field) {
                Some(value) => fields.insert(field.to_owned(), value.clone()),
                None => fields.remove(field),
            };
        }
    }
    let path = FieldPath::new("spec").child("template");
    (*template != before).then(|| FieldError::invalid(&path, template.clone(), FIXED))
}

/// Checks the generated labels by which a job selects its pods.
fn generated_labels(job: &Value) -> Errors {
    let mut errors = Vec::new();
    if job["spec"]["manualSelector"] == true {
        return errors;
    }
    let path = FieldPath::new("spec").child("template").child("metadata").child("labels");
    let labels = &job["spec"]["template"]["metadata"]["labels"];
    for (label, field) in [
        ("batch.kubernetes.io/controller-uid", "uid"),
        ("batch.kubernetes.io/job-name", "name"),
        ("controller-uid", "uid"),
        ("job-name", "name"),
    ] {
        let wanted = text(&job["metadata"], field);
        match labels[label].as_str() {
            Some(value) if value == wanted => {}
            Some(_) => {
                let detail = format!("must be '{wanted}'");
                errors.push(FieldError::invalid(&path.key(label), labels.clone(), detail));
            }
            None => {
                let detail = format!("must be '{wanted}'");
                errors.push(FieldError::required(&path.key(label), detail));
            }
        }
    }
    errors
}

fn selected_spec(spec: &Value, path: &FieldPath) -> Errors {
    let mut errors = job_spec(spec, path);
    if is_set(spec, "selector") {
        errors.extend(validate_label_selector(&spec["selector"], &path.child("selector")));
    } else {
        errors.push(FieldError::required(&path.child("selector"), ""));
    }
    errors.extend(workload::matching(&spec["selector"], spec, path));
    errors
}

fn job_spec(spec: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.extend(not_negative(spec, field, path));
    }
    if is_set(spec, "maxFailedIndexes") && !is_set(spec, "backoffLimitPerIndex") {
        let detail = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(&path.child("backoffLimitPerIndex"), detail));
    }
    let mode = text(spec, "completionMode");
    if !matches!(mode, "" | "NonIndexed" | "Indexed") {
        let modes = ["NonIndexed", "Indexed"];
        errors.push(FieldError::not_supported(&path.child("completionMode"), mode, &modes));
    }
    if mode == "Indexed" && !is_set(spec, "completions") {
        errors.push(FieldError::required(&path.child("completions"), "when completion mode is Indexed"));
    }
    if matches!(mode, "" | "NonIndexed") {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(value) = spec[field].as_i64() {
                errors.push(FieldError::invalid(&path.child(field), value, INDEXED_ONLY));
            }
        }
    }
    errors.extend(failure_policy(spec, &path.child("podFailurePolicy")));
    let policies = ["Failed", "TerminatingOrFailed"];
    let policy = text(spec, "podReplacementPolicy");
    if !policy.is_empty() {
        if is_set(spec, "podFailurePolicy") && policy != "Failed" {
            let path = path.child("podReplacementPolicy");
            errors.push(FieldError::not_supported(&path, policy, &["Failed"]));
        } else {
            errors.extend(one_of(policy, &policies, &path.child("podReplacementPolicy")));
        }
    }
    errors.extend(pod::template(&spec["template"], &path.child("template")));
    let at = path.child("template").child("spec").child("restartPolicy");
    match text(&spec["template"]["spec"], "restartPolicy") {
        "Always" | "" => {
            let detail = "valid values: \"OnFailure\", \"Never\"";
            errors.push(FieldError::required(&at, detail));
        }
        "OnFailure" if is_set(spec, "podFailurePolicy") => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.push(FieldError::invalid(&at, "OnFailure", detail));
        }
        "OnFailure" | "Never" => {}
        other => errors.push(FieldError::not_supported(&at, other, &["OnFailure", "Never"])),
    }
    errors
}

fn failure_policy(spec: &Value, path: &FieldPath) -> Errors {
    let policy = &spec["podFailurePolicy"];
    let mut errors = Vec::new();
    for (rule, path) in items(policy, "rules", path) {
        let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
        errors.extend(one_of(text(rule, "action"), &actions, &path.child("action")));
        let (codes, conditions) = (is_set(rule, "onExitCodes"), is_set(rule, "onPodConditions"));
        if codes && conditions {
            let detail = "specifying both OnExitCodes and OnPodConditions is not supported";
            errors.push(FieldError::invalid(&path, "", detail));
        } else if !codes && !conditions {
            let detail = "specifying one of OnExitCodes and OnPodConditions is required";
            errors.push(FieldError::invalid(&path, "", detail));
        }
        if codes {
            let at = path.child("onExitCodes");
            let operator = text(&rule["onExitCodes"], "operator");
            errors.extend(one_of(operator, &["In", "NotIn"], &at.child("operator")));
        }
    }
    errors
}

pub(super) fn cron(job: &Value) -> Errors {
    let mut errors = cron_spec(job, None);
    let name = text(&job["metadata"], "name");
    if name.len() > 52 {
        let path = FieldPath::new("metadata").child("name");
        errors.push(FieldError::invalid(&path, name, "must be no more than 52 characters"));
    }
    errors
}

pub(super) fn cron_update(new: &Value, old: &Value) -> Errors {
    cron_spec(new, Some(old))
}

fn cron_spec(job: &Value, old: Option<&Value>) -> Errors {
    let (spec, path) = (&job["spec"], FieldPath::new("spec"));
    let mut errors = Vec::new();
    let at = path.child("schedule");
    match text(spec, "schedule") {
        "" => errors.push(FieldError::required(&at, "")),
        schedule => {
            let known = old.is_some_and(|old| text(&old["spec"], "schedule") == schedule);
            if let Err(why) = schedule::check(schedule)
                && !known
            {
                errors.push(FieldError::invalid(&at, schedule, why));
            }
            if schedule.contains("TZ") && !known {
                let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
                errors.push(FieldError::invalid(&at, schedule, detail));
            }
        }
    }
    errors.extend(not_negative(spec, "startingDeadlineSeconds", &path));
    if spec["timeZone"] == "" {
        let detail = "timeZone must be nil or non-empty string";
        errors.push(FieldError::invalid(&path.child("timeZone"), "", detail));
    }
    let policies = ["Allow", "Forbid", "Replace"];
    errors.extend(one_of(text(spec, "concurrencyPolicy"), &policies, &path.child("concurrencyPolicy")));
    let (template, at) = (&spec["jobTemplate"]["spec"], path.child("jobTemplate").child("spec"));
    errors.extend(job_spec(template, &at));
    if is_set(template, "selector") {
        let shown = workload::shown(&template["selector"]);
        let detail = "`selector` will be auto-generated";
        let value = template["selector"].clone();
        errors.push(FieldError::invalid_shown(&at.child("selector"), value, shown, detail));
    }
    if template["manualSelector"] == true {
        let path = at.child("manualSelector");
        errors.push(FieldError::not_supported(&path, true, &["nil", "false"]));
    }
    errors.extend(not_negative(spec, "successfulJobsHistoryLimit", &path));
    errors.extend(not_negative(spec, "failedJobsHistoryLimit", &path));
    errors
}

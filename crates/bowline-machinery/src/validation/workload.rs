//! Workload kinds: they keep a number of pods running.

use serde_json::{Value, json};

use super::check::{Errors, dns_label, integer, is_set, items, list, not_negative, one_of, text};
use super::{claim, pod};
use crate::{FieldError, FieldPath, LabelSelector, Labels, validate_label_selector, validate_labels};

const FIXED: &str = "field is immutable";

pub(super) fn deployment(deployment: &Value) -> Errors {
    let (spec, path) = (&deployment["spec"], FieldPath::new("spec"));
    let mut errors: Errors = not_negative(spec, "replicas", &path).into_iter().collect();
    errors.extend(selector(spec, "deployment", &path));
    errors.extend(template(spec, "ReplicaSet", &path));
    errors.extend(deployment_strategy(&spec["strategy"], &path.child("strategy")));
    errors.extend(not_negative(spec, "minReadySeconds", &path));
    errors.extend(not_negative(spec, "revisionHistoryLimit", &path));
    if let Some(deadline) = spec["progressDeadlineSeconds"].as_i64() {
        errors.extend(not_negative(spec, "progressDeadlineSeconds", &path));
        if deadline <= integer(spec, "minReadySeconds") {
            let detail = "must be greater than minReadySeconds";
            errors.push(FieldError::invalid(&path.child("progressDeadlineSeconds"), deadline, detail));
        }
    }
    errors
}

pub(super) fn deployment_update(new: &Value, old: &Value) -> Errors {
    let mut errors = deployment(new);
    errors.extend(same_selector(new, old));
    errors
}

pub(super) fn replica_set(set: &Value) -> Errors {
    let (spec, path) = (&set["spec"], FieldPath::new("spec"));
    let mut errors: Errors = not_negative(spec, "replicas", &path).into_iter().collect();
    errors.extend(not_negative(spec, "minReadySeconds", &path));
    errors.extend(selector(spec, "deployment", &path));
    errors.extend(template(spec, "ReplicaSet", &path));
    errors
}

pub(super) fn replica_set_update(new: &Value, old: &Value) -> Errors {
    let mut errors = replica_set(new);
    errors.extend(same_selector(new, old));
    errors
}

pub(super) fn replication_controller(controller: &Value) -> Errors {
    let (spec, path) = (&controller["spec"], FieldPath::new("spec"));
    let mut errors: Errors = not_negative(spec, "minReadySeconds", &path).into_iter().collect();
    if spec["selector"].as_object().is_none_or(serde_json::Map::is_empty) {
        errors.push(FieldError::required(&path.child("selector"), ""));
    }
    errors.extend(not_negative(spec, "replicas", &path));
    if !is_set(spec, "template") {
        errors.push(FieldError::required(&path.child("template"), ""));
        return errors;
    }
    let selector = json!({"matchLabels": spec["selector"]});
    errors.extend(matching(&selector, spec, &path));
    let path = path.child("template");
    errors.extend(pod::template(&spec["template"], &path));
    errors.extend(runs_forever(&spec["template"], "ReplicationController", &path));
    errors
}

pub(super) fn daemon_set(set: &Value) -> Errors {
    let (spec, path) = (&set["spec"], FieldPath::new("spec"));
    let mut errors = validate_label_selector(&spec["selector"], &path.child("selector"));
    errors.extend(matching(&spec["selector"], spec, &path));
    if is_set(spec, "selector") {
        errors.extend(empty_selector(&spec["selector"], "daemonset", &path));
    }
    let at = path.child("template");
    errors.extend(pod::template(&spec["template"], &at));
    errors.extend(runs_forever(&spec["template"], "DaemonSet", &at));
    errors.extend(not_negative(spec, "minReadySeconds", &path));
    errors.extend(daemon_strategy(&spec["updateStrategy"], &path.child("updateStrategy")));
    errors.extend(not_negative(spec, "revisionHistoryLimit", &path));
    errors
}

pub(super) fn daemon_set_update(new: &Value, old: &Value) -> Errors {
    let mut errors = same_selector(new, old);
    errors.extend(daemon_set(new));
    errors
}

pub(super) fn stateful_set(set: &Value) -> Errors {
    let (spec, path) = (&set["spec"], FieldPath::new("spec"));
    let mut errors = stateful_spec(spec, &path);
    if !text(spec, "serviceName").is_empty() {
        errors.extend(dns_label(text(spec, "serviceName"), &path.child("serviceName")));
    }
    errors.extend(stateful_template(spec, &path));
    errors
}

pub(super) fn stateful_set_update(new: &Value, old: &Value) -> Errors {
    let (spec, path) = (&new["spec"], FieldPath::new("spec"));
    let mut errors = stateful_spec(spec, &path);
    errors.extend(stateful_template(spec, &path));
    let free = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let rest = |set: &Value| {
        let mut spec = set["spec"].as_object().cloned().unwrap_or_default();
        spec.retain(|field, _| !free.contains(&field.as_str()));
        spec
    };
    if rest(new) != rest(old) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden(&path, detail));
    }
    errors
}

fn stateful_spec(spec: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    let (policy, at) = (text(spec, "podManagementPolicy"), path.child("podManagementPolicy"));
    if !matches!(policy, "OrderedReady" | "Parallel") {
        errors.push(FieldError::invalid(&at, policy, "must be 'OrderedReady' or 'Parallel'"));
    }
    let (strategy, at) = (&spec["updateStrategy"], path.child("updateStrategy"));
    match text(strategy, "type") {
        "OnDelete" if is_set(strategy, "rollingUpdate") => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            let value = strategy["rollingUpdate"].clone();
            errors.push(FieldError::invalid(&at.child("rollingUpdate"), value, detail));
        }
        "RollingUpdate" => {
            errors.extend(not_negative(&strategy["rollingUpdate"], "partition", &at.child("rollingUpdate")));
        }
        "OnDelete" => {}
        _ => errors.push(FieldError::invalid(&at, strategy.clone(), "must be 'RollingUpdate' or 'OnDelete'")),
    }
    let (policy, at) =
        (&spec["persistentVolumeClaimRetentionPolicy"], path.child("persistentVolumeClaimRetentionPolicy"));
    for field in ["whenDeleted", "whenScaled"] {
        errors.extend(one_of(text(policy, field), &["Retain", "Delete"], &at.child(field)));
    }
    for (template, path) in items(spec, "volumeClaimTemplates", path) {
        errors.extend(claim::spec(&template["spec"], &path.child("spec")));
    }
    errors.extend(not_negative(spec, "replicas", path));
    errors.extend(not_negative(spec, "minReadySeconds", path));
    if let Some(start) = spec["ordinals"]["start"].as_i64().filter(|start| *start < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("ordinals.start"), start, detail));
    }
    errors
}

fn stateful_template(spec: &Value, path: &FieldPath) -> Errors {
    let mut errors = selector(spec, "statefulset", path);
    errors.extend(matching(&spec["selector"], spec, path));
    // Containers may also mount the volumes of claim templates.
    let mut template = spec["template"].clone();
    if let Some(pod) = template["spec"].as_object_mut() {
        pod.remove("subdomain");
        pod.remove("hostname");
        let claims = list(spec, "volumeClaimTemplates").iter().map(|claim| text(&claim["metadata"], "name"));
        let claims: Vec<_> = claims.collect();
        let own = pod.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
        let own = own.into_iter().filter(|volume| !claims.contains(&text(volume, "name")));
        let mut volumes: Vec<_> = claims
            .iter()
            .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
            .collect();
        volumes.extend(own);
        pod.insert("volumes".to_owned(), volumes.into());
    }
    let path = path.child("template");
    errors.extend(pod::template(&template, &path));
    errors.extend(validate_labels(&template["metadata"]["labels"], &path.child("labels")));
    errors.extend(runs_forever(&spec["template"], "StatefulSet", &path));
    errors
}

/// Checks that a selector is set and not empty.
fn selector(spec: &Value, kind: &str, path: &FieldPath) -> Errors {
    let at = path.child("selector");
    if !is_set(spec, "selector") {
        return vec![FieldError::required(&at, "")];
    }
    let mut errors = validate_label_selector(&spec["selector"], &at);
    errors.extend(empty_selector(&spec["selector"], kind, path));
    errors
}

fn empty_selector(selector: &Value, kind: &str, path: &FieldPath) -> Option<FieldError> {
    let labels = selector["matchLabels"].as_object().map_or(0, serde_json::Map::len);
    let empty = labels + list(selector, "matchExpressions").len() == 0;
    let detail = format!("empty selector is invalid for {kind}");
    empty.then(|| FieldError::invalid(&path.child("selector"), selector.clone(), detail))
}

/// Validates the template of replicas, which the selector must match.
fn template(spec: &Value, kind: &str, path: &FieldPath) -> Errors {
    if LabelSelector::from_object(&spec["selector"]).is_err() {
        let detail = "invalid label selector";
        let (path, selector) = (path.child("selector"), &spec["selector"]);
        return vec![FieldError::invalid_shown(&path, selector.clone(), shown(selector), detail)];
    }
    let mut errors = matching(&spec["selector"], spec, path);
    let path = path.child("template");
    errors.extend(pod::template(&spec["template"], &path));
    errors.extend(runs_forever(&spec["template"], kind, &path));
    errors
}

/// Labels of an object, for matching.
struct Map<'a>(&'a Value);

impl Labels for Map<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }
}

/// Checks that the selector matches the labels of the pod template.
pub(super) fn matching(selector: &Value, spec: &Value, path: &FieldPath) -> Errors {
    let labels = &spec["template"]["metadata"]["labels"];
    // An empty selector is refused elsewhere.
    let matches = match LabelSelector::from_object(selector) {
        Ok(selector) => selector.is_everything() || selector.matches(&Map(labels)),
        Err(_) => true,
    };
    if matches {
        return Vec::new();
    }
    let path = path.child("template").child("metadata").child("labels");
    vec![FieldError::invalid(&path, labels.clone(), "`selector` does not match template `labels`")]
}

/// Checks that replicas never end by themselves: restart policy `Always` and no deadline.
fn runs_forever(template: &Value, kind: &str, path: &FieldPath) -> Errors {
    let (spec, path) = (&template["spec"], path.child("spec"));
    let mut errors = Vec::new();
    let policy = text(spec, "restartPolicy");
    if policy != "Always" {
        errors.push(FieldError::not_supported(&path.child("restartPolicy"), policy, &["Always"]));
    }
    if is_set(spec, "activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(FieldError::forbidden(&path.child("activeDeadlineSeconds"), detail));
    }
    errors
}

fn same_selector(new: &Value, old: &Value) -> Errors {
    let (new, old) = (&new["spec"]["selector"], &old["spec"]["selector"]);
    if new == old {
        return Vec::new();
    }
    let path = FieldPath::new("spec").child("selector");
    vec![FieldError::invalid_shown(&path, new.clone(), shown(new), FIXED)]
}

/// A selector as Go prints it: labels before expressions.
pub(super) fn shown(selector: &Value) -> String {
    let parts = ["matchLabels", "matchExpressions"].iter().filter_map(|field| {
        let value = selector.get(field).filter(|value| !value.is_null())?;
        Some(format!("\"{field}\":{value}"))
    });
    format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
}

fn deployment_strategy(strategy: &Value, path: &FieldPath) -> Errors {
    let (rolling, at) = (&strategy["rollingUpdate"], path.child("rollingUpdate"));
    match text(strategy, "type") {
        "Recreate" if is_set(strategy, "rollingUpdate") => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            vec![FieldError::forbidden(&at, detail)]
        }
        "Recreate" => Vec::new(),
        "RollingUpdate" => {
            let mut errors = share(rolling, "maxUnavailable", &at);
            errors.extend(share(rolling, "maxSurge", &at));
            if number(&rolling["maxUnavailable"]) == 0 && number(&rolling["maxSurge"]) == 0 {
                let value = rolling["maxUnavailable"].clone();
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.push(FieldError::invalid(&at.child("maxUnavailable"), value, detail));
            }
            errors.extend(at_most_all(rolling, "maxUnavailable", &at));
            errors
        }
        _ => {
            let shown = format!(r#"{{"Type":{},"RollingUpdate":null}}"#, strategy["type"]);
            let kinds = ["Recreate", "RollingUpdate"];
            vec![FieldError::not_supported_shown(path, shown, &kinds)]
        }
    }
}

fn daemon_strategy(strategy: &Value, path: &FieldPath) -> Errors {
    let (rolling, at) = (&strategy["rollingUpdate"], path.child("rollingUpdate"));
    match text(strategy, "type") {
        "OnDelete" => Vec::new(),
        "RollingUpdate" => {
            let mut errors = share(rolling, "maxUnavailable", &at);
            errors.extend(share(rolling, "maxSurge", &at));
            errors.extend(at_most_all(rolling, "maxUnavailable", &at));
            errors.extend(at_most_all(rolling, "maxSurge", &at));
            match (number(&rolling["maxUnavailable"]) != 0, number(&rolling["maxSurge"]) != 0) {
                (true, true) => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    let value = rolling["maxSurge"].clone();
                    errors.push(FieldError::invalid(&at.child("maxSurge"), value, detail));
                }
                (false, false) => {
                    let detail = "cannot be 0 when maxSurge is 0";
                    errors.push(FieldError::required(&at.child("maxUnavailable"), detail));
                }
                _ => {}
            }
            errors
        }
        _ => {
            let shown = format!(r#"{{"Type":{},"RollingUpdate":null}}"#, strategy["type"]);
            let kinds = ["RollingUpdate", "OnDelete"];
            vec![FieldError::not_supported_shown(path, shown, &kinds)]
        }
    }
}

/// Validates a non-negative number or a percentage.
pub(super) fn share(object: &Value, field: &str, path: &FieldPath) -> Errors {
    let path = path.child(field);
    match &object[field] {
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            let right = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
            if right { Vec::new() } else { vec![FieldError::invalid(&path, text.as_str(), detail)] }
        }
        value => {
            let negative = value.as_i64().filter(|number| *number < 0);
            let detail = "must be greater than or equal to 0";
            negative.map(|number| FieldError::invalid(&path, number, detail)).into_iter().collect()
        }
    }
}

pub(super) fn at_most_all(object: &Value, field: &str, path: &FieldPath) -> Option<FieldError> {
    let text = object[field].as_str()?;
    let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
    let detail = "must not be greater than 100%";
    (percent > 100).then(|| FieldError::invalid(&path.child(field), text, detail))
}

/// The number, or the number of the percentage.
fn number(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.strip_suffix('%').and_then(|text| text.parse().ok()).unwrap_or(0),
        value => value.as_i64().unwrap_or(0),
    }
}

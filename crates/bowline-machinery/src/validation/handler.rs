//! Probes and lifecycle hooks of containers.

use serde_json::Value;

use super::check::{Errors, integer, is_set, items, list, not_negative, port, supported_or_empty, text};
use crate::{FieldError, FieldPath};

const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/// `grace` is the pod's termination grace period.
pub(super) fn lifecycle(container: &Value, grace: Option<i64>, path: &FieldPath) -> Errors {
    let path = path.child("lifecycle");
    let mut errors = Vec::new();
    for field in ["postStart", "preStop"] {
        let hook = &container["lifecycle"][field];
        if hook.is_object() {
            errors.extend(handler(hook, grace, &path.child(field)));
        }
    }
    errors
}

pub(super) fn probes(container: &Value, grace: Option<i64>, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let (one, path) = (&container[field], path.child(field));
        if !one.is_object() {
            continue;
        }
        errors.extend(probe(one, grace, &path));
        let seconds = path.child("terminationGracePeriodSeconds");
        if field == "readinessProbe" {
            if let Some(grace) = one["terminationGracePeriodSeconds"].as_i64() {
                errors.push(FieldError::invalid(&seconds, grace, "must not be set for readinessProbes"));
            }
        } else if integer(one, "successThreshold") != 1 {
            let threshold = integer(one, "successThreshold");
            errors.push(FieldError::invalid(&path.child("successThreshold"), threshold, "must be 1"));
        }
    }
    errors
}

fn probe(probe: &Value, grace: Option<i64>, path: &FieldPath) -> Errors {
    let mut errors = handler(probe, grace, path);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        errors.extend(not_negative(probe, field, path));
    }
    let field = "terminationGracePeriodSeconds";
    if let Some(seconds) = probe[field].as_i64().filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid(&path.child(field), seconds, "must be greater than 0"));
    }
    errors
}

/// Checks that exactly one action is set.
fn handler(handler: &Value, grace: Option<i64>, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    let mut handlers = HANDLERS.iter().filter(|field| is_set(handler, field));
    let Some(first) = handlers.next() else {
        return vec![FieldError::required(path, "must specify a handler type")];
    };
    let (action, at) = (&handler[*first], path.child(first));
    match *first {
        "exec" if list(action, "command").is_empty() => {
            errors.push(FieldError::required(&at.child("command"), ""));
        }
        "httpGet" => errors.extend(http(action, &at)),
        "tcpSocket" | "grpc" => errors.extend(port(&action["port"], &at.child("port"))),
        "sleep" => {
            let seconds = integer(action, "seconds");
            if let Some(grace) = grace.filter(|grace| !(0..=*grace).contains(&seconds)) {
                let detail =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                errors.push(FieldError::invalid(&at, seconds, detail));
            }
        }
        _ => {}
    }
    for other in handlers {
        let detail = "may not specify more than 1 handler type";
        errors.push(FieldError::forbidden(&path.child(other), detail));
    }
    errors
}

fn http(action: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    if text(action, "path").is_empty() {
        errors.push(FieldError::required(&path.child("path"), ""));
    }
    errors.extend(port(&action["port"], &path.child("port")));
    errors.extend(supported_or_empty(text(action, "scheme"), &["HTTP", "HTTPS"], &path.child("scheme")));
    for (header, _) in items(action, "httpHeaders", path) {
        let name = text(header, "name");
        let right = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !right {
            let detail = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
            errors.push(FieldError::invalid(&path.child("httpHeaders"), name, detail));
        }
    }
    errors
}

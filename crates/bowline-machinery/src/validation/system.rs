//! Kinds that configure the API: webhooks and admission policies, API services, certificate requests, flow control.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::{Errors, integer, invalid, is_set, items, list, one_of, supported_or_empty, text, texts};
use crate::{
    FieldError, FieldPath, validate_dns1035_label, validate_dns1123_subdomain, validate_label_selector,
};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub(super) fn webhooks(configuration: &Value) -> Errors {
    let mut errors = Vec::new();
    let mut names = BTreeSet::new();
    for (webhook, path) in items(configuration, "webhooks", &FieldPath::root()) {
        errors.extend(self::webhook(webhook, &path));
        errors.extend(versions(webhook, &path));
        let name = text(webhook, "name");
        if !name.is_empty() && !names.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
    }
    errors
}

fn webhook(webhook: &Value, path: &FieldPath) -> Errors {
    let mut errors = qualified(text(webhook, "name"), &path.child("name"));
    for (rule, path) in items(webhook, "rules", path) {
        errors.extend(self::rule(rule, &path));
    }
    let of = |field: &str| text(webhook, field);
    errors.extend(supported_or_empty(of("failurePolicy"), &["Fail", "Ignore"], &path.child("failurePolicy")));
    errors.extend(supported_or_empty(
        of("matchPolicy"),
        &["Equivalent", "Exact"],
        &path.child("matchPolicy"),
    ));
    let effects = ["None", "NoneOnDryRun"];
    let at = path.child("sideEffects");
    if of("sideEffects").is_empty() {
        errors.push(FieldError::required(&at, "must specify one of None, NoneOnDryRun"));
    } else {
        errors.extend(supported_or_empty(of("sideEffects"), &effects, &at));
    }
    if let Some(seconds) = webhook["timeoutSeconds"].as_i64().filter(|seconds| !(1..=30).contains(seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(&path.child("timeoutSeconds"), seconds, detail));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        errors.extend(validate_label_selector(&webhook[field], &path.child(field)));
    }
    let (client, at) = (&webhook["clientConfig"], path.child("clientConfig"));
    if is_set(client, "url") == is_set(client, "service") {
        errors.push(FieldError::required(&at, "exactly one of url or service is required"));
    } else if is_set(client, "service") {
        for field in ["name", "namespace"] {
            if text(&client["service"], field).is_empty() {
                let detail = format!("service {field} is required");
                errors.push(FieldError::required(&at.child("service").child(field), detail));
            }
        }
    }
    errors
}

/// Checks that a name has at least three parts separated by dots.
fn qualified(name: &str, path: &FieldPath) -> Errors {
    if name.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let wrong = validate_dns1123_subdomain(name);
    if wrong.is_empty() && name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        return vec![FieldError::invalid(path, name, detail)];
    }
    invalid(path, name, wrong)
}

fn rule(rule: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    if list(rule, "operations").is_empty() {
        errors.push(FieldError::required(&path.child("operations"), ""));
    }
    for (index, operation) in texts(&rule["operations"]).enumerate() {
        let path = path.child("operations").index(index);
        errors.extend(supported_or_empty(operation, &OPERATIONS, &path));
    }
    for field in ["apiGroups", "apiVersions", "resources"] {
        if list(rule, field).is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
        }
    }
    errors
}

fn versions(webhook: &Value, path: &FieldPath) -> Option<FieldError> {
    let (known, path) = (["v1", "v1beta1"], path.child("admissionReviewVersions"));
    let all = &webhook["admissionReviewVersions"];
    if list(webhook, "admissionReviewVersions").is_empty() {
        return Some(FieldError::required(&path, "must specify one of v1, v1beta1"));
    }
    let any = texts(all).any(|version| known.contains(&version));
    (!any).then(|| FieldError::invalid(&path, all.clone(), "must include at least one of v1, v1beta1"))
}

pub(super) fn policy(policy: &Value) -> Errors {
    let (spec, path) = (&policy["spec"], FieldPath::new("spec"));
    let mut errors = Vec::new();
    if !is_set(spec, "matchConstraints") {
        errors.push(FieldError::required(&path.child("matchConstraints"), ""));
    }
    if list(spec, "validations").is_empty() && list(spec, "auditAnnotations").is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        for field in ["validations", "auditAnnotations"] {
            errors.push(FieldError::required(&path.child(field), detail));
        }
    }
    errors
}

pub(super) fn policy_binding(binding: &Value) -> Errors {
    let (spec, path) = (&binding["spec"], FieldPath::new("spec"));
    let mut errors = Vec::new();
    if text(spec, "policyName").is_empty() {
        errors.push(FieldError::required(&path.child("policyName"), ""));
    }
    if list(spec, "validationActions").is_empty() {
        let detail = "at least one validation action is required";
        errors.push(FieldError::required(&path.child("validationActions"), detail));
    }
    errors
}

pub(super) fn api_service(service: &Value) -> Errors {
    let (spec, path) = (&service["spec"], FieldPath::new("spec"));
    let (name, group, version) =
        (text(&service["metadata"], "name"), text(spec, "group"), text(spec, "version"));
    let mut errors = Vec::new();
    let wanted = format!("{version}.{group}");
    if name != wanted {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
        errors.push(FieldError::invalid(&FieldPath::new("metadata").child("name"), name, detail));
    }
    if group.is_empty() && version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required(&path.child("group"), detail));
    } else if !group.is_empty() {
        errors.extend(invalid(&path.child("group"), group, validate_dns1123_subdomain(group)));
    }
    errors.extend(invalid(&path.child("version"), version, validate_dns1035_label(version)));
    for (field, limit) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let priority = integer(spec, field);
        if !(1..=limit).contains(&priority) {
            let detail = format!("must be positive and less than {limit}");
            errors.push(FieldError::invalid(&path.child(field), priority, detail));
        }
    }
    if is_set(spec, "service") {
        for field in ["namespace", "name"] {
            if text(&spec["service"], field).is_empty() {
                errors.push(FieldError::required(&path.child("service").child(field), ""));
            }
        }
    }
    errors
}

/// The start of a certificate request in base64: the first line of its PEM block.
const PEM: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS";

pub(super) fn signing_request(request: &Value) -> Errors {
    let (spec, path) = (&request["spec"], FieldPath::new("spec"));
    let mut errors = Vec::new();
    if !text(spec, "request").starts_with(PEM) {
        let detail = "PEM block type must be CERTIFICATE REQUEST";
        errors.push(FieldError::invalid(&path.child("request"), spec["request"].clone(), detail));
    }
    if list(spec, "usages").is_empty() {
        errors.push(FieldError::required(&path.child("usages"), ""));
    }
    for (index, usage) in texts(&spec["usages"]).enumerate() {
        errors.extend(supported_or_empty(usage, &USAGES, &path.child("usages").index(index)));
    }
    let (name, at) = (text(spec, "signerName"), path.child("signerName"));
    if name.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else if name.split('/').count() != 2 {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid(&at, name, detail));
    }
    errors
}

pub(super) fn flow_schema(schema: &Value) -> Errors {
    let path = FieldPath::new("spec").child("priorityLevelConfiguration").child("name");
    let missing = text(&schema["spec"]["priorityLevelConfiguration"], "name").is_empty();
    let detail = "must reference a priority level";
    missing.then(|| FieldError::required(&path, detail)).into_iter().collect()
}

pub(super) fn priority_level(level: &Value) -> Errors {
    let path = FieldPath::new("spec").child("type");
    one_of(text(&level["spec"], "type"), &["Exempt", "Limited"], &path).into_iter().collect()
}

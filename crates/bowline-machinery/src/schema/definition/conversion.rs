//! Validation of `spec.conversion`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::uri;
use super::rules::one_of;
use super::spec::{list, text, texts};
use crate::{FieldError, FieldPath, validate_dns1035_label, validate_dns1123_subdomain};

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn is_known_review_version(version: &Value) -> bool {
    version.as_str().is_some_and(|version| REVIEW_VERSIONS.contains(&version))
}

/// Validates `spec.conversion`. The errors name the webhook's fields by their names in the first version.
pub(super) fn check(conversion: &Value, known_review_version: bool, path: &FieldPath) -> Vec<FieldError> {
    let strategy = text(conversion, "strategy");
    let mut errors = Vec::new();
    errors.extend(one_of(&path.child("strategy"), &strategy, &["None", "Webhook"]));
    let webhook = &conversion["webhook"];
    let config = &webhook["clientConfig"];
    let at = path.child("webhookClientConfig");
    let reviews = path.child("conversionReviewVersions");
    if strategy == "Webhook" {
        if config.is_object() {
            errors.extend(client_config(config, &at));
        } else {
            errors.push(FieldError::required(&at, "required when strategy is set to Webhook"));
        }
        errors.extend(review_versions(&webhook["conversionReviewVersions"], known_review_version, &reviews));
        return errors;
    }
    let detail = "should not be set when strategy is not set to Webhook";
    if config.is_object() {
        errors.push(FieldError::forbidden(&at, detail));
    }
    if !list(&webhook["conversionReviewVersions"]).is_empty() {
        errors.push(FieldError::forbidden(&reviews, detail));
    }
    errors
}

fn client_config(config: &Value, path: &FieldPath) -> Vec<FieldError> {
    match (config["url"].as_str(), config["service"].is_object()) {
        (None, false) | (Some(_), true) => {
            vec![FieldError::required(path, "exactly one of url or service is required")]
        }
        (Some(url), false) => webhook_url(url, &path.child("url")),
        (None, true) => service(&config["service"], &path.child("service")),
    }
}

fn webhook_url(url: &str, path: &FieldPath) -> Vec<FieldError> {
    let form = "; desired format: https://host[/path]";
    let uri = match uri::parse_reference(url) {
        Ok(uri) => uri,
        Err(message) => {
            return vec![FieldError::required(path, format!("url must be a valid URL: {message}{form}"))];
        }
    };
    let mut errors = Vec::new();
    let mut wrong = |value: &str, detail: String| errors.push(FieldError::invalid(path, value, detail));
    if uri.scheme != "https" {
        wrong(&uri.scheme, format!("'https' is the only allowed URL scheme{form}"));
    }
    if uri.host.is_empty() {
        wrong(&uri.host, format!("host must be specified{form}"));
    }
    if let Some(user) = &uri.user {
        wrong(user, "user information is not permitted in the URL".to_owned());
    }
    if !uri.fragment.is_empty() {
        wrong(&uri.fragment, "fragments are not permitted in the URL".to_owned());
    }
    if !uri.query.is_empty() {
        wrong(&uri.query, "query parameters are not permitted in the URL".to_owned());
    }
    errors
}

fn service(service: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // Kubernetes swaps the two fields in its errors.
    for (missing, reported) in [("namespace", "name"), ("name", "namespace")] {
        if text(service, missing).is_empty() {
            errors.push(FieldError::required(&path.child(reported), ""));
        }
    }
    let port = service["port"].as_i64().unwrap_or_default();
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(&path.child("port"), port, detail));
    }
    let at = path.child("path");
    let whole = text(service, "path");
    let mut wrong = |detail: String| errors.push(FieldError::invalid(&at, whole.as_str(), detail));
    match whole.as_str() {
        "" | "/" => {}
        "//" => wrong("segment[0] may not be empty".to_owned()),
        _ => {
            if !whole.starts_with('/') {
                wrong("must start with a '/'".to_owned());
            }
            let mut first = whole.chars();
            first.next();
            let inside = first.as_str();
            let inside = inside.strip_suffix('/').unwrap_or(inside);
            for (index, segment) in inside.split('/').enumerate() {
                if segment.is_empty() {
                    wrong(format!("segment[{index}] may not be empty"));
                    continue;
                }
                for failure in validate_dns1123_subdomain(segment) {
                    wrong(format!("segment[{index}]: {failure}"));
                }
            }
        }
    }
    errors
}

fn review_versions(versions: &Value, known_review_version: bool, path: &FieldPath) -> Vec<FieldError> {
    let names = texts(&serde_json::json!({ "versions": versions }), "versions");
    if names.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, name) in names.iter().enumerate() {
        let at = path.index(index);
        if !seen.insert(name.as_str()) {
            errors.push(FieldError::invalid(&at, name.as_str(), "duplicate version"));
            continue;
        }
        let wrong = validate_dns1035_label(name).into_iter();
        errors.extend(wrong.map(|detail| FieldError::invalid(&at, name.as_str(), detail)));
    }
    if known_review_version && !REVIEW_VERSIONS.iter().any(|version| seen.contains(version)) {
        errors.push(FieldError::invalid(path, names, "must include at least one of v1, v1beta1"));
    }
    errors
}

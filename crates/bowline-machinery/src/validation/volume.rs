//! The volumes of a pod.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::{Errors, dns_label, is_set, items, list, supported_or_empty, text};
use super::claim;
use super::mount::{descending, downward_file, mode, no_way_up, not_reserved};
use crate::{FieldError, FieldPath, Quantity};

/// The types of volumes, in the order of Kubernetes.
const KINDS: [&str; 29] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
];

const HOST_PATHS: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// The names of valid volumes, and the errors of all others.
pub(super) fn volumes(spec: &Value, path: &FieldPath) -> (BTreeSet<String>, Errors) {
    let mut names = BTreeSet::new();
    let mut errors = Vec::new();
    for (volume, path) in items(spec, "volumes", path) {
        let (name, at) = (text(volume, "name"), path.child("name"));
        let mut wrong = source(volume, &path);
        if name.is_empty() {
            wrong.push(FieldError::required(&at, ""));
        } else {
            wrong.extend(dns_label(name, &at));
        }
        if names.contains(name) {
            wrong.push(FieldError::duplicate(&at, name));
        }
        if wrong.is_empty() {
            names.insert(name.to_owned());
        }
        errors.extend(wrong);
    }
    (names, errors)
}

fn source(volume: &Value, path: &FieldPath) -> Errors {
    let mut kinds = KINDS.iter().chain(&["image"]).filter(|kind| is_set(volume, kind));
    let Some(kind) = kinds.next() else {
        return vec![FieldError::required(path, "must specify a volume type")];
    };
    let mut errors = one_source(kind, &volume[*kind], &path.child(kind));
    for other in kinds {
        let detail = "may not specify more than 1 volume type";
        errors.push(FieldError::forbidden(&path.child(other), detail));
    }
    errors
}

fn one_source(kind: &str, source: &Value, path: &FieldPath) -> Errors {
    match kind {
        "emptyDir" => {
            let limit = Quantity::from_value(&source["sizeLimit"]).ok();
            let detail = "SizeLimit field must be a valid resource quantity";
            let negative = limit.is_some_and(|limit| limit.is_negative());
            negative.then(|| FieldError::forbidden(&path.child("sizeLimit"), detail)).into_iter().collect()
        }
        "hostPath" => match text(source, "path") {
            "" => vec![FieldError::required(&path.child("path"), "")],
            place => {
                let mut errors: Errors = no_way_up(place, &path.child("path")).into_iter().collect();
                let kind = supported_or_empty(text(source, "type"), &HOST_PATHS, &path.child("type"));
                errors.extend(kind);
                errors
            }
        },
        "secret" => keys(source, "secretName", path),
        "configMap" => keys(source, "name", path),
        "nfs" => {
            let mut errors = required(source, &["server", "path"], path);
            let place = text(source, "path");
            if !place.starts_with('/') {
                errors.push(FieldError::invalid(&path.child("path"), place, "must be an absolute path"));
            }
            errors
        }
        "persistentVolumeClaim" => required(source, &["claimName"], path),
        "csi" => required(source, &["driver"], path),
        "downwardAPI" => {
            let mut errors: Errors = mode(source, "defaultMode", path).into_iter().collect();
            for (file, path) in items(source, "items", path) {
                errors.extend(downward_file(file, &path));
            }
            errors
        }
        "projected" => projected(source, path),
        "ephemeral" => {
            let path = path.child("volumeClaimTemplate");
            if is_set(source, "volumeClaimTemplate") {
                claim::spec(&source["volumeClaimTemplate"]["spec"], &path.child("spec"))
            } else {
                vec![FieldError::required(&path, "")]
            }
        }
        _ => Vec::new(),
    }
}

fn required(source: &Value, fields: &[&str], path: &FieldPath) -> Errors {
    let missing = fields.iter().filter(|field| text(source, field).is_empty());
    missing.map(|field| FieldError::required(&path.child(field), "")).collect()
}

fn keys(source: &Value, name: &str, path: &FieldPath) -> Errors {
    let mut errors = required(source, &[name], path);
    errors.extend(mode(source, "defaultMode", path));
    for (item, path) in items(source, "items", path) {
        errors.extend(key(item, &path));
    }
    errors
}

fn key(item: &Value, path: &FieldPath) -> Errors {
    let mut errors = required(item, &["key", "path"], path);
    errors.extend(not_reserved(text(item, "path"), &path.child("path")));
    errors.extend(mode(item, "mode", path));
    errors
}

fn projected(source: &Value, path: &FieldPath) -> Errors {
    let mut errors: Errors = mode(source, "defaultMode", path).into_iter().collect();
    let mut places = BTreeSet::new();
    for (source, at) in items(source, "sources", path) {
        for kind in ["secret", "configMap"] {
            if !is_set(source, kind) {
                continue;
            }
            errors.extend(required(&source[kind], &["name"], &at.child(kind)));
            for (item, path) in items(&source[kind], "items", &at.child(kind)) {
                errors.extend(key(item, &path));
            }
            for item in list(&source[kind], "items") {
                let place = text(item, "path");
                if !place.is_empty() && !places.insert(place) {
                    let detail = "conflicting duplicate paths";
                    errors.push(FieldError::invalid(path, text(&source[kind], "name"), detail));
                }
            }
        }
        for (file, path) in items(&source["downwardAPI"], "items", &at.child("downwardAPI")) {
            errors.extend(downward_file(file, &path));
        }
        let token = &source["serviceAccountToken"];
        if token.is_object() {
            let at = at.child("serviceAccountToken");
            let seconds = token["expirationSeconds"].as_i64().unwrap_or(600);
            if seconds < 600 {
                let detail = "may not specify a duration less than 10 minutes";
                errors.push(FieldError::invalid(&at.child("expirationSeconds"), seconds, detail));
            }
            if text(token, "path").is_empty() {
                errors.push(FieldError::required(&at.child("path"), ""));
            }
            errors.extend(descending(text(token, "path"), &at.child("path")));
        }
        let kinds = ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle"];
        if kinds.iter().filter(|kind| is_set(source, kind)).count() > 1 {
            let detail = "may not specify more than 1 volume type per source";
            errors.push(FieldError::forbidden(&at, detail));
        }
    }
    errors
}

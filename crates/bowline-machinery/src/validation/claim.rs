//! Persistent volume claims and persistent volumes.

use serde_json::Value;

use super::check::{Errors, dns_subdomain, is_set, list, supported_or_empty, text, texts};
use crate::{FieldError, FieldPath, Quantity, validate_label_selector};

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const KINDS: [&str; 2] = ["Block", "Filesystem"];

pub(super) fn create(claim: &Value) -> Errors {
    spec(&claim["spec"], &FieldPath::new("spec"))
}

/// Validates the spec of a claim, or of a claim template.
pub(super) fn spec(spec: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    if list(spec, "accessModes").is_empty() {
        let detail = "at least 1 access mode is required";
        errors.push(FieldError::required(&path.child("accessModes"), detail));
    }
    errors.extend(validate_label_selector(&spec["selector"], &path.child("selector")));
    errors.extend(modes(spec, path));
    errors.extend(size(&spec["resources"]["requests"]["storage"], &path.child("resources").key("storage")));
    for field in ["storageClassName", "volumeAttributesClassName"] {
        if !text(spec, field).is_empty() {
            errors.extend(dns_subdomain(text(spec, field), &path.child(field)));
        }
    }
    errors.extend(supported_or_empty(text(spec, "volumeMode"), &KINDS, &path.child("volumeMode")));
    errors
}

fn modes(spec: &Value, path: &FieldPath) -> Errors {
    let path = path.child("accessModes");
    let unknown = texts(&spec["accessModes"]).filter(|mode| !MODES.contains(mode));
    let mut errors: Errors = unknown.map(|mode| FieldError::not_supported(&path, mode, &MODES)).collect();
    let alone = |mode: &&str| *mode == "ReadWriteOncePod";
    let others = texts(&spec["accessModes"]).any(|mode| MODES.contains(&mode) && !alone(&mode));
    if others && texts(&spec["accessModes"]).any(|mode| alone(&mode)) {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden(&path, detail));
    }
    errors
}

fn size(value: &Value, path: &FieldPath) -> Option<FieldError> {
    if value.is_null() {
        return Some(FieldError::required(path, ""));
    }
    let quantity = Quantity::from_value(value).ok()?;
    let positive = !quantity.is_negative() && !quantity.is_zero();
    (!positive).then(|| FieldError::invalid(path, quantity.to_string(), "must be greater than zero"))
}

pub(super) fn update(new: &Value, old: &Value) -> Errors {
    let mut errors = create(new);
    let path = FieldPath::new("spec");
    let mut before = old["spec"].clone();
    let mut after = new["spec"].clone();
    if text(&before, "volumeName").is_empty()
        && let Some(name) = after.get("volumeName")
    {
        before["volumeName"] = name.clone();
    }
    // A claim that never had a class may get one.
    if !is_set(&before, "storageClassName")
        && let Some(class) = after.get("storageClassName")
    {
        before["storageClassName"] = class.clone();
    }
    if new["status"]["phase"] == "Bound" {
        after["resources"] = before["resources"].clone();
        after["volumeAttributesClassName"] = before["volumeAttributesClassName"].clone();
        before["volumeAttributesClassName"] = before["volumeAttributesClassName"].clone();
    }
    if after != before {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n";
        errors.push(FieldError::forbidden(&path, detail));
    }
    let asked = |claim: &Value| Quantity::from_value(&claim["spec"]["resources"]["requests"]["storage"]).ok();
    let capacity = Quantity::from_value(&old["status"]["capacity"]["storage"]).ok();
    if let (Some(now), Some(was), Some(capacity)) = (asked(new), asked(old), capacity)
        && now < was
        && now <= capacity
    {
        let path = path.child("resources").child("requests").child("storage");
        errors.push(FieldError::forbidden(&path, "field can not be less than status.capacity"));
    }
    let mode = |claim: &Value| claim["spec"]["volumeMode"].clone();
    if mode(new) != mode(old) {
        errors.push(FieldError::invalid(&FieldPath::new("volumeMode"), mode(new), "field is immutable"));
    }
    errors
}

const SOURCES: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "hostPath",
    "iscsi",
    "local",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// Validates a persistent volume.
pub(super) fn volume(volume: &Value) -> Errors {
    let (spec, path) = (&volume["spec"], FieldPath::new("spec"));
    let mut errors = Vec::new();
    if list(spec, "accessModes").is_empty() {
        errors.push(FieldError::required(&path.child("accessModes"), ""));
    }
    errors.extend(modes(spec, &path));
    let capacity = spec["capacity"].as_object().cloned().unwrap_or_default();
    if capacity.is_empty() {
        errors.push(FieldError::required(&path.child("capacity"), ""));
    }
    if !capacity.contains_key("storage") || capacity.len() > 1 {
        let path = path.child("capacity");
        errors.push(FieldError::not_supported(&path, spec["capacity"].clone(), &["storage"]));
    }
    for (name, value) in &capacity {
        let path = path.child("capacity").key(name);
        let amount = Quantity::from_value(value).ok().and_then(|quantity| quantity.value());
        if let Some(amount) = amount.filter(|amount| *amount < 0) {
            errors.push(FieldError::invalid(&path, amount, "must be a valid resource quantity"));
        }
        errors.extend(size(value, &path));
    }
    let policies = ["Delete", "Recycle", "Retain"];
    let policy = text(spec, "persistentVolumeReclaimPolicy");
    errors.extend(supported_or_empty(policy, &policies, &path.child("persistentVolumeReclaimPolicy")));
    if !SOURCES.iter().any(|source| is_set(spec, source)) {
        errors.push(FieldError::required(&path, "must specify a volume type"));
    }
    errors.extend(supported_or_empty(text(spec, "volumeMode"), &KINDS, &path.child("volumeMode")));
    errors
}

//! Volumes and persistent volume claims.

use serde_json::json;

use super::container::{field_ref, pull_policy};
use super::fill::{Object, absent, child, each, empty, made, quantities, text};

/// Mode 0644.
const MODE: i64 = 0o644;

/// A volume of a pod.
pub(super) fn volume(volume: &mut Object) {
    if volume.iter().all(|(name, value)| name == "name" || value.is_null()) {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = child(volume, source) {
            absent(source, "defaultMode", MODE);
        }
    }
    if let Some(downward) = child(volume, "downwardAPI") {
        downward_items(downward);
    }
    if let Some(projected) = child(volume, "projected") {
        for source in each(projected, "sources") {
            if let Some(downward) = child(source, "downwardAPI") {
                downward_items(downward);
            }
            if let Some(token) = child(source, "serviceAccountToken") {
                absent(token, "expirationSeconds", 3600);
            }
        }
    }
    if let Some(claim) = child(volume, "ephemeral").and_then(|source| child(source, "volumeClaimTemplate")) {
        claim_spec(made(claim, "spec"));
    }
    if let Some(image) = child(volume, "image") {
        let policy = pull_policy(text(image, "reference"));
        empty(image, "pullPolicy", policy);
    }
    source(volume);
}

fn downward_items(downward: &mut Object) {
    for item in each(downward, "items") {
        if let Some(field) = child(item, "fieldRef") {
            field_ref(field);
        }
    }
}

/// Defaults shared by volumes of pods and persistent volumes.
fn source(source: &mut Object) {
    if let Some(path) = child(source, "hostPath") {
        absent(path, "type", "");
    }
    if let Some(iscsi) = child(source, "iscsi") {
        empty(iscsi, "iscsiInterface", "default");
    }
    if let Some(rbd) = child(source, "rbd") {
        empty(rbd, "pool", "rbd");
        empty(rbd, "user", "admin");
        empty(rbd, "keyring", "/etc/ceph/keyring");
    }
    if let Some(disk) = child(source, "azureDisk") {
        absent(disk, "cachingMode", "ReadWrite");
        absent(disk, "fsType", "ext4");
        absent(disk, "readOnly", false);
        absent(disk, "kind", "Shared");
    }
    if let Some(scale_io) = child(source, "scaleIO") {
        empty(scale_io, "storageMode", "ThinProvisioned");
        empty(scale_io, "fsType", "xfs");
    }
}

pub(super) fn persistent_volume(volume: &mut Object) {
    let spec = made(volume, "spec");
    volume_spec(spec);
    quantities(spec, &["capacity"]);
    empty(spec, "persistentVolumeReclaimPolicy", "Retain");
    absent(spec, "volumeMode", "Filesystem");
    empty(made(volume, "status"), "phase", "Pending");
}

fn volume_spec(spec: &mut Object) {
    source(spec);
}

pub(super) fn claim(claim: &mut Object) {
    claim_spec(made(claim, "spec"));
    let status = made(claim, "status");
    quantities(status, &["capacity", "allocatedResources"]);
    empty(status, "phase", "Pending");
}

fn claim_spec(spec: &mut Object) {
    absent(spec, "volumeMode", "Filesystem");
    if let Some(resources) = child(spec, "resources") {
        quantities(resources, &["requests", "limits"]);
    }
}

pub(super) fn storage_class(class: &mut Object) {
    absent(class, "reclaimPolicy", "Delete");
    absent(class, "volumeBindingMode", "Immediate");
}

pub(super) fn csi_driver(driver: &mut Object) {
    let spec = made(driver, "spec");
    absent(spec, "attachRequired", true);
    absent(spec, "podInfoOnMount", false);
    absent(spec, "storageCapacity", false);
    absent(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    empty(spec, "volumeLifecycleModes", json!(["Persistent"]));
    absent(spec, "requiresRepublish", false);
    absent(spec, "seLinuxMount", false);
}

/// The inline volume of an attachment has the defaults of a persistent volume.
pub(super) fn attachment(attachment: &mut Object) {
    let source = child(attachment, "spec").and_then(|spec| child(spec, "source"));
    if let Some(spec) = source.and_then(|source| child(source, "inlineVolumeSpec")) {
        volume_spec(spec);
    }
}

/// The claim templates of a stateful set.
pub(super) fn claim_templates(spec: &mut Object) {
    for template in each(spec, "volumeClaimTemplates") {
        claim(template);
        empty(template, "apiVersion", "v1");
        empty(template, "kind", "PersistentVolumeClaim");
    }
}

//! The content of a `CustomResourceDefinition`.

use bowline_machinery::{FieldPath, GroupVersionKind, Schema};
use serde_json::{Value, json};

use crate::object::{child_mut, finalizers, into_map, metadata_mut};
use crate::resource::{Names, WriteTarget};

/// Finalizer that keeps a definition until all its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

pub(crate) fn is_definition(gvk: &GroupVersionKind) -> bool {
    gvk.group == "apiextensions.k8s.io" && gvk.kind == "CustomResourceDefinition"
}

/// A typed view of a definition.
pub(crate) struct Definition<'a> {
    crd: &'a Value,
}

impl<'a> Definition<'a> {
    pub(crate) fn new(crd: &'a Value) -> Self {
        Self { crd }
    }

    pub(crate) fn text(&self, pointer: &str) -> &'a str {
        self.crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &'a str {
        self.text("/metadata/name")
    }

    pub(crate) fn group(&self) -> &'a str {
        self.text("/spec/group")
    }

    pub(crate) fn namespaced(&self) -> bool {
        self.text("/spec/scope") == "Namespaced"
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.crd.pointer("/metadata/deletionTimestamp").is_some()
    }

    pub(crate) fn versions(&self) -> impl Iterator<Item = &'a Value> {
        self.crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten()
    }

    pub(crate) fn is_established(&self) -> bool {
        condition(self.crd, "Established").is_some_and(|condition| condition["status"] == "True")
    }

    /// The names at a pointer: the requested or the accepted ones.
    pub(crate) fn names(&self, at: &str) -> Names {
        let names = self.crd.pointer(at).cloned().unwrap_or_default();
        let text = |field: &str| names[field].as_str().unwrap_or_default().to_owned();
        let list = |field: &str| {
            let texts = names[field].as_array().into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        Names {
            plural: text("plural"),
            singular: text("singular"),
            list_kind: text("listKind"),
            short_names: list("shortNames"),
            categories: list("categories"),
        }
    }
}

pub(crate) fn condition<'a>(crd: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array)?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

/// Sets a condition; its transition time changes only with its status.
pub(crate) fn set_condition(
    crd: &mut Value,
    kind: &str,
    status: bool,
    reason: &str,
    message: &str,
    now: &str,
) {
    let status = if status { "True" } else { "False" };
    let since = condition(crd, kind).filter(|condition| condition["status"] == status);
    let since = since.map_or_else(|| now.into(), |condition| condition["lastTransitionTime"].clone());
    let new = json!({
        "type": kind,
        "status": status,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    });
    let conditions = child_mut(crd, "status").entry("conditions").or_insert(Value::Null);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|condition| condition["type"] == kind) {
        Some(present) => *present = new,
        None => conditions.push(new),
    }
}

fn storage_version(crd: &Value) -> Option<&str> {
    let mut versions = crd.pointer("/spec/versions")?.as_array()?.iter();
    versions.find(|version| version["storage"] == true)?["name"].as_str()
}

/// A new definition has stored objects only in its storage version.
pub(crate) fn prepare_create(crd: &mut Value) {
    let stored: Vec<_> = storage_version(crd).into_iter().map(str::to_owned).collect();
    let status =
        json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored});
    into_map(crd).insert("status".to_owned(), status);
}

/// Adds the storage version to the stored versions.
pub(crate) fn prepare_update(part: WriteTarget, crd: &mut Value, _old: &Value) {
    if part != WriteTarget::Main {
        return;
    }
    let Some(storage) = storage_version(crd).map(str::to_owned) else { return };
    let stored = child_mut(crd, "status").entry("storedVersions").or_insert_with(|| json!([]));
    if let Some(stored) = stored.as_array_mut()
        && !stored.iter().any(|version| *version == storage)
    {
        stored.push(storage.into());
    }
}

/// Sets the condition `Terminating` of a definition that is being deleted.
pub(crate) fn prepare_delete(crd: &mut Value) {
    let now =
        crd.pointer("/metadata/deletionTimestamp").and_then(Value::as_str).unwrap_or_default().to_owned();
    metadata_mut(crd).remove("deletionGracePeriodSeconds");
    if finalizers(crd).iter().any(|finalizer| finalizer == CLEANUP_FINALIZER) {
        let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        set_condition(crd, "Terminating", true, "InstanceDeletionPending", message, &now);
    }
}

/// Warnings about features of a definition that this server does not have yet.
pub(crate) fn warnings(crd: &Value) -> Vec<String> {
    let definition = Definition::new(crd);
    let mut warnings = Vec::new();
    if definition.text("/spec/conversion/strategy") == "Webhook" {
        warnings.push(
            "spec.conversion: conversion webhooks are not supported by this server yet: objects are served in every \
             version as they are stored"
                .to_owned(),
        );
    }
    for (index, version) in definition.versions().enumerate() {
        let path = FieldPath::new("spec.versions").index(index).child("schema.openAPIV3Schema");
        let Ok(schema) = Schema::compile(&version["schema"]["openAPIV3Schema"], &path) else { continue };
        let warn = |need: bowline_machinery::Unsupported| {
            format!(
                "{}.{}: not supported by this server yet, and not enforced: {}",
                need.path, need.feature, need.detail
            )
        };
        warnings.extend(schema.needs().into_iter().map(warn));
    }
    warnings
}

//! Validation of `metadata`, equal for every kind: on create, and on update.
//!
//! Expects metadata that decodes: a field of another type counts as absent.

mod lists;

use std::collections::BTreeSet;

use serde_json::Value;

pub use lists::{
    validate_annotations, validate_field_manager, validate_labels, validate_qualified_finalizers,
};

use crate::{FieldError, FieldPath, NameValidator, name_is_dns_label};
use lists::{validate_finalizers, validate_managed_fields, validate_owner_references};

/// Validates the metadata of a new object, after its name was generated.
///
/// `namespaced` is whether objects of the kind have a namespace; `path` is `metadata` in most cases.
#[must_use]
pub fn validate_object_meta(
    meta: &Value,
    namespaced: bool,
    name_validator: NameValidator,
    path: &FieldPath,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (generate_name, name) = (text(meta, "generateName"), text(meta, "name"));
    if !generate_name.is_empty() {
        let wrong = name_validator(generate_name, true);
        errors.extend(invalid(&path.child("generateName"), generate_name, wrong));
    }
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), "name or generateName is required"));
    } else {
        errors.extend(invalid(&path.child("name"), name, name_validator(name, false)));
    }
    errors.extend(validate_namespace(text(meta, "namespace"), namespaced, &path.child("namespace")));
    let generation = generation(meta);
    if generation < 0 {
        let path = path.child("generation");
        errors.push(FieldError::invalid(&path, generation, "must be greater than or equal to 0"));
    }
    errors.extend(validate_labels(&meta["labels"], &path.child("labels")));
    errors.extend(validate_annotations(&meta["annotations"], &path.child("annotations")));
    errors.extend(validate_owner_references(&meta["ownerReferences"], &path.child("ownerReferences")));
    errors.extend(validate_finalizers(&meta["finalizers"], &path.child("finalizers")));
    errors.extend(validate_managed_fields(&meta["managedFields"], &path.child("managedFields")));
    errors
}

/// Validates the metadata of an object that replaces another.
///
/// Expects the fields that the server fills in before: a `resourceVersion`, and the old object's times where the new
/// one has none.
#[must_use]
pub fn validate_object_meta_update(new: &Value, old: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !old["deletionTimestamp"].is_null() {
        errors.extend(new_finalizers(new, old, path));
    }
    if text(new, "resourceVersion").is_empty() {
        let path = path.child("resourceVersion");
        errors.push(FieldError::invalid(&path, "", "must be specified for an update"));
    }
    if generation(new) < generation(old) {
        let path = path.child("generation");
        errors.push(FieldError::invalid(&path, generation(new), "must not be decremented"));
    }
    for field in ["name", "namespace", "uid"] {
        errors.extend(validate_immutable(
            &text(new, field).into(),
            &text(old, field).into(),
            &path.child(field),
        ));
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        errors.extend(validate_immutable(&new[field], &old[field], &path.child(field)));
    }
    errors.extend(validate_labels(&new["labels"], &path.child("labels")));
    errors.extend(validate_annotations(&new["annotations"], &path.child("annotations")));
    errors.extend(validate_owner_references(&new["ownerReferences"], &path.child("ownerReferences")));
    errors.extend(validate_managed_fields(&new["managedFields"], &path.child("managedFields")));
    errors
}

fn validate_namespace(namespace: &str, namespaced: bool, path: &FieldPath) -> Vec<FieldError> {
    match (namespaced, namespace) {
        (true, "") => vec![FieldError::required(path, "")],
        (true, _) => invalid(path, namespace, name_is_dns_label(namespace, false)),
        (false, "") => Vec::new(),
        (false, _) => vec![FieldError::forbidden(path, "not allowed on this type")],
    }
}

/// Checks that a field is unchanged. The error is `path: Invalid value: new: field is immutable`.
#[must_use]
pub fn validate_immutable(new: &Value, old: &Value, path: &FieldPath) -> Option<FieldError> {
    (new != old).then(|| FieldError::invalid(path, new.clone(), "field is immutable"))
}

/// Checks that an object that is being deleted gets no new finalizers.
fn new_finalizers(new: &Value, old: &Value, path: &FieldPath) -> Option<FieldError> {
    let before: BTreeSet<_> = texts(&old["finalizers"]).collect();
    let added: BTreeSet<_> = texts(&new["finalizers"]).filter(|name| !before.contains(name)).collect();
    if added.is_empty() {
        return None;
    }
    let added: Vec<_> = added.into_iter().map(|name| format!("{name:?}")).collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.join(", ")
    );
    Some(FieldError::forbidden(&path.child("finalizers"), detail))
}

/// One error per message about a text.
fn invalid(path: &FieldPath, text: &str, wrong: Vec<String>) -> Vec<FieldError> {
    wrong.into_iter().map(|wrong| FieldError::invalid(path, text, wrong)).collect()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn generation(meta: &Value) -> i64 {
    meta["generation"].as_i64().unwrap_or_default()
}

#[cfg(test)]
mod tests;

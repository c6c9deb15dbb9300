//! What is wrong with objects of built-in kinds, in the words of Kubernetes and in its order, beside their metadata:
//! what a new object must have, and what an update may not change.
//!
//! Objects are normalised and have their defaults: a field of another type counts as absent.

mod check;
mod service;

use serde_json::Value;

use crate::FieldError;

pub use service::validate_service_addresses;

/// What is wrong with an object that is to be created. Nothing, for kinds whose rules are not known here.
#[must_use]
pub fn validate_builtin(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    match (group, kind) {
        ("", "Service") => service::create(object),
        _ => Vec::new(),
    }
}

/// What is wrong with an object that is to replace another.
#[must_use]
pub fn validate_builtin_update(group: &str, kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    match (group, kind) {
        ("", "Service") => service::update(new, old),
        _ => Vec::new(),
    }
}

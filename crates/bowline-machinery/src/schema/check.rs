//! All checks of a schema before objects are validated with it.

use super::node::Node;
use super::openapi::{self, Strictness};
use super::{defaults, structural};
use crate::{FieldError, FieldPath};

/// Validates the schema of a resource; `path` is that of the schema.
pub(super) fn check(root: &Node, path: &FieldPath, strictness: Strictness) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let obstacle = structural::obstacle(root);
    if obstacle.is_none() {
        errors.extend(structural::check(root, path));
        if errors.is_empty() {
            errors.extend(defaults::check(root, path, strictness.pruned_defaults));
        }
    }
    errors.extend(openapi::check(root, path, strictness));
    if errors.is_empty() {
        errors.extend(obstacle.map(|obstacle| FieldError::invalid(path, "", obstacle)));
    }
    errors
}

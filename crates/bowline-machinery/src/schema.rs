//! Schemas of custom resources: a compiled `openAPIV3Schema` of a `CustomResourceDefinition`, for pruning, defaulting
//! and validation. Behavior and messages are those of Kubernetes 1.36.
//!
//! Rules of `x-kubernetes-validations` are parsed and validated, but not evaluated: [`Schema::needs`] lists them.

mod check;
mod default;
mod defaults;
mod definition;
mod embedded;
mod errors;
mod field_path;
mod format;
mod list;
mod metadata;
mod node;
mod number;
mod openapi;
mod pattern;
mod problem;
mod prune;
mod ratchet;
mod read;
mod structural;
mod unknown;
mod uri;
mod validate;

use serde_json::Value;

use crate::{FieldError, FieldPath};
use node::Node;
use openapi::Strictness;
use ratchet::Correlation;
use unknown::UnknownPaths;
use validate::Validator;

pub use definition::{default_crd, validate_crd, validate_crd_update};

/// The structural schema of one version of a custom resource. Immutable; share it in an `Arc`.
///
/// A server calls, in this order, [`Schema::prune`], [`Schema::coerce`], [`Schema::default`], and for writes
/// [`Schema::validate`] or [`Schema::validate_update`].
#[derive(Clone, Debug)]
pub struct Schema {
    root: Node,
}

/// A feature of a schema that is not implemented.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsupported {
    /// The path in the schema.
    pub path: FieldPath,
    /// The field that requests the feature.
    pub feature: &'static str,
    /// The requested value: the text of a rule.
    pub detail: String,
}

impl Schema {
    /// Compiles the `openAPIV3Schema` of one version. `path` is the schema's own path, for the errors.
    ///
    /// Accepts any JSON. A schema nested more than 128 levels deep, or with more than 65 536 schemas inside, is an
    /// error.
    ///
    /// # Errors
    /// The errors that Kubernetes reports when a `CustomResourceDefinition` is created, about 1000 at most.
    pub fn compile(schema: &Value, path: &FieldPath) -> Result<Self, Vec<FieldError>> {
        let mut root = read::read(schema, path)?;
        let errors = check::check(&root, path, Strictness::FULL);
        if !errors.is_empty() {
            return Err(errors);
        }
        defaults::prepare(&mut root);
        Ok(Self { root })
    }

    /// Removes unknown fields, and nulls for which the schema has neither `nullable` nor a default.
    ///
    /// The object's `apiVersion`, `kind` and `metadata` stay; so do those of embedded resources.
    pub fn prune(&self, object: &mut Value) {
        prune::prune(&self.root, object, true);
        default::prune_nulls(&self.root, object);
    }

    /// The paths of the unknown fields that [`Schema::prune`] and [`Schema::coerce`] would remove: `spec.list[0].name`.
    /// Those of the object's own metadata are not included.
    ///
    /// At most 100, and fewer if they are long: no path is added after 64 KiB of text. The first path is always
    /// included.
    #[must_use]
    pub fn unknown_fields(&self, object: &Value) -> Vec<String> {
        let mut paths = prune::unknown_fields(&self.root, object, true);
        let pruned = paths.len();
        // `coerce` reports metadata that cannot be decoded.
        let _ = embedded::coerce(&self.root, &mut object.clone(), false, &FieldPath::root(), &mut paths);
        paths.into_sorted(pruned)
    }

    /// Brings the metadata of embedded resources into the form of Kubernetes: without unknown and without empty fields.
    ///
    /// # Errors
    /// The first field of the wrong type in an embedded resource's type or metadata. Kubernetes responds with 400, as
    /// for any body that it cannot decode.
    pub fn coerce(&self, object: &mut Value) -> Result<(), FieldError> {
        embedded::coerce(&self.root, object, false, &FieldPath::root(), &mut UnknownPaths::default())
    }

    /// Sets defaults for fields that are missing, or null without `nullable`. Nulls without a default are removed
    /// first, as in [`Schema::prune`].
    ///
    /// Returns whether all defaults were set. A small object may request many large ones, so defaulting stops after 3
    /// MiB, twice the maximum size of an object in etcd.
    pub fn default(&self, object: &mut Value) -> bool {
        default::prune_nulls(&self.root, object);
        default::default(&self.root, object)
    }

    /// Validates a new object: its fields, its embedded resources, and its lists that are sets or maps. `path` is the
    /// prefix of the errors' paths; it is the root for whole objects.
    ///
    /// The object's own type and metadata are not validated, unless the schema specifies them. Returns about 1000
    /// errors of each type at most.
    #[must_use]
    pub fn validate(&self, object: &Value, path: &FieldPath) -> Vec<FieldError> {
        let mut errors = Validator::new(None).validate(&self.root, object).into_errors(path);
        errors.extend(embedded::validate(&self.root, object, false, path));
        errors.extend(list::validate(&self.root, object, path));
        errors
    }

    /// Validates an object that replaces another. Errors that the old object already had on unchanged values are
    /// ignored.
    #[must_use]
    pub fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let path = FieldPath::root();
        let old_value = Some(Correlation::new(old, &self.root));
        let mut errors = Validator::new(old_value).validate(&self.root, new).into_errors(&path);
        errors.extend(embedded::validate(&self.root, new, false, &path));
        if list::validate(&self.root, old, &path).is_empty() {
            errors.extend(list::validate(&self.root, new, &path));
        }
        errors
    }

    /// As [`Schema::validate_update`], for an update of the `status` subresource: validates only the status.
    #[must_use]
    pub fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let (Some(status), Some(node)) = (new.get("status"), self.root.properties.get("status")) {
            let old_value = old.get("status").map(|status| Correlation::new(status, node));
            errors = Validator::new(old_value).validate(node, status).into_errors(&FieldPath::new("status"));
        }
        let path = FieldPath::root();
        if list::validate(&self.root, old, &path).is_empty() {
            errors.extend(list::validate(&self.root, new, &path));
        }
        errors
    }

    /// The features of the schema that are not implemented: rules of `x-kubernetes-validations`, each with its path in
    /// the schema.
    #[must_use]
    pub fn needs(&self) -> Vec<Unsupported> {
        let mut needs = Vec::new();
        rules(&self.root, &FieldPath::root(), &mut needs);
        needs
    }
}

fn rules(node: &Node, path: &FieldPath, needs: &mut Vec<Unsupported>) {
    let feature = "x-kubernetes-validations";
    needs.extend(node.rules.iter().enumerate().map(|(index, rule)| Unsupported {
        path: path.child(feature).index(index),
        feature,
        detail: rule.expression.clone(),
    }));
    for (name, property) in &node.properties {
        rules(property, &path.child("properties").key(name), needs);
    }
    if let Some(item) = node.item() {
        rules(item, &path.child("items"), needs);
    }
    if let Some(additional) = node.additional_schema() {
        rules(additional, &path.child("additionalProperties"), needs);
    }
}

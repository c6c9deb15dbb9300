//! The schemas of custom resources: `openAPIV3Schema` of a `CustomResourceDefinition`, compiled, and what it does to
//! objects. Behaviour and wording are those of Kubernetes 1.36.
//!
//! Rules of `x-kubernetes-validations` are read and checked for their form, but not run: [`Schema::needs`] names them.

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
/// A server does with an object what Kubernetes does, in this order: [`Schema::prune`], [`Schema::coerce`],
/// [`Schema::default`], and, when it is written, [`Schema::validate`] or [`Schema::validate_update`].
#[derive(Clone, Debug)]
pub struct Schema {
    root: Node,
}

/// Something that a schema asks for and that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsupported {
    /// Where in the schema.
    pub path: FieldPath,
    /// What: the name of the field that asks for it.
    pub feature: &'static str,
    /// How it is asked for: the text of a rule.
    pub detail: String,
}

impl Schema {
    /// Compiles the `openAPIV3Schema` of one version. `path` is the schema's own path, for the errors.
    ///
    /// Takes any JSON: a schema that is nested more than 128 levels deep, or has more than 65 536 schemas in it, is an
    /// error as well.
    ///
    /// # Errors
    /// What is wrong with it, worded as Kubernetes words it when a `CustomResourceDefinition` is created; not much more
    /// than 1000 things.
    pub fn compile(schema: &Value, path: &FieldPath) -> Result<Self, Vec<FieldError>> {
        let mut root = read::read(schema, path)?;
        let errors = check::check(&root, path, Strictness::FULL);
        if !errors.is_empty() {
            return Err(errors);
        }
        defaults::prepare(&mut root);
        Ok(Self { root })
    }

    /// Removes the fields that the schema does not know, and nulls that it neither allows nor has a default for.
    ///
    /// The object's `apiVersion`, `kind` and `metadata` stay as they are; so do those of embedded resources.
    pub fn prune(&self, object: &mut Value) {
        prune::prune(&self.root, object, true);
        default::prune_nulls(&self.root, object);
    }

    /// The paths of the fields that [`Schema::prune`] and [`Schema::coerce`] would remove because they do not know
    /// them: `spec.list[0].name`. Those of the object's own metadata are not among them.
    ///
    /// At most 100, and fewer if they are long: when 64 KiB of text are told, no more are. If there is one, one is told.
    #[must_use]
    pub fn unknown_fields(&self, object: &Value) -> Vec<String> {
        let mut paths = prune::unknown_fields(&self.root, object, true);
        let pruned = paths.len();
        // What cannot be read is `coerce`'s to tell.
        let _ = embedded::coerce(&self.root, &mut object.clone(), false, &FieldPath::root(), &mut paths);
        paths.into_sorted(pruned)
    }

    /// Brings the metadata of embedded resources into the form that Kubernetes gives it: without unknown fields, and
    /// without empty ones.
    ///
    /// # Errors
    /// The first thing in an embedded resource's type or metadata that is of the wrong type. Kubernetes answers it
    /// with a 400, as any body that it cannot read.
    pub fn coerce(&self, object: &mut Value) -> Result<(), FieldError> {
        embedded::coerce(&self.root, object, false, &FieldPath::root(), &mut UnknownPaths::default())
    }

    /// Puts defaults where fields are missing, or null without being allowed to. Nulls without a default go first, as
    /// in [`Schema::prune`].
    ///
    /// Gives whether all defaults were put. A small object may ask for many large ones, so that no more are put when
    /// they have added 3 MiB; that is twice what etcd stores of an object.
    pub fn default(&self, object: &mut Value) -> bool {
        default::prune_nulls(&self.root, object);
        default::default(&self.root, object)
    }

    /// What is wrong with a new object: its fields, its embedded resources, and its lists that are sets or maps.
    /// `path` is put in front of the errors' paths; it is the root for whole objects.
    ///
    /// The object's own type and metadata are not looked at, unless the schema speaks of them. Not much more than 1000
    /// errors are told of each sort.
    #[must_use]
    pub fn validate(&self, object: &Value, path: &FieldPath) -> Vec<FieldError> {
        let mut errors = Validator::new(None).validate(&self.root, object).into_errors(path);
        errors.extend(embedded::validate(&self.root, object, false, path));
        errors.extend(list::validate(&self.root, object, path));
        errors
    }

    /// What is wrong with an object that is to replace another. What was wrong before and is still the same is let
    /// through.
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

    /// As [`Schema::validate_update`], for an update of the `status` subresource: only the status is held against
    /// its schema.
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

    /// What the schema asks for that is not there yet: rules of `x-kubernetes-validations`, each with its path in the
    /// schema.
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

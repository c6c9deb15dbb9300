//! The schemas of custom resources: `openAPIV3Schema` of a `CustomResourceDefinition`, compiled, and what it does to
//! objects. Behaviour and wording are those of Kubernetes 1.36.

mod default;
mod format;
mod node;
mod number;
mod pattern;
mod problem;
mod prune;
mod read;
mod structural;
mod validate;

use serde_json::Value;

use crate::{FieldError, FieldPath};
use node::Node;
use validate::Validator;

/// The structural schema of one version of a custom resource. Immutable; share it in an `Arc`.
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
    /// What.
    pub what: String,
}

impl Schema {
    /// Compiles a schema. `path` is its own path, for the errors.
    ///
    /// # Errors
    /// What is wrong with it, worded as Kubernetes words it when a `CustomResourceDefinition` is created.
    pub fn compile(schema: &Value, path: &FieldPath) -> Result<Self, Vec<FieldError>> {
        let root = read::read(schema, path)?;
        let mut errors = structural::check(&root, path);
        if errors.is_empty()
            && let Some(obstacle) = structural::obstacle(&root)
        {
            errors.push(FieldError::invalid(path, "", obstacle));
        }
        if errors.is_empty() { Ok(Self { root }) } else { Err(errors) }
    }

    /// Removes the fields that the schema does not know, and nulls where they mean nothing.
    pub fn prune(&self, object: &mut Value) {
        prune::prune(&self.root, object, true);
        default::prune_nulls(&self.root, object);
    }

    /// The paths of the fields that [`Schema::prune`] would remove, sorted.
    #[must_use]
    pub fn unknown_fields(&self, object: &Value) -> Vec<String> {
        prune::unknown_fields(&self.root, object, true)
    }

    /// Puts defaults where fields are missing.
    pub fn default(&self, object: &mut Value) {
        default::prune_nulls(&self.root, object);
        default::default(&self.root, object);
    }

    /// What is wrong with an object. `path` is put in front of the errors' paths.
    #[must_use]
    pub fn validate(&self, object: &Value, path: &FieldPath) -> Vec<FieldError> {
        Validator::new().validate(&self.root, object).into_errors(path)
    }

    /// What the schema asks for that is not there yet.
    #[must_use]
    pub fn needs(&self) -> Vec<Unsupported> {
        Vec::new()
    }
}

//! Validation of the defaults in a schema: valid by the schema itself, and without fields that would be pruned.

use serde_json::{Map, Value};

use super::errors::Errors;
use super::node::{Additional, Items, Node};
use super::unknown::UnknownPaths;
use super::validate::Validator;
use super::{embedded, prune};
use crate::{FieldError, FieldPath};

/// Validates the defaults in the schema of a resource.
pub(super) fn check(root: &Node, path: &FieldPath, must_be_pruned: bool) -> Vec<FieldError> {
    let mut checker = Checker { errors: Errors::default(), must_be_pruned };
    checker.resource(root, path);
    checker.errors.into_vec()
}

struct Checker {
    errors: Errors,
    must_be_pruned: bool,
}

/// The position of a default, from the closest resource around it.
#[derive(Clone, Copy)]
struct Place<'a> {
    resource: &'a Node,
    step: Option<(&'a Place<'a>, Step<'a>)>,
    /// Whether it is in the resource's type or metadata.
    is_meta: bool,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Item,
}

impl Place<'_> {
    /// An object that contains only this value at this position.
    fn around(&self, value: Value) -> Value {
        match self.step {
            None => value,
            Some((parent, Step::Item)) => parent.around(Value::Array(vec![value])),
            Some((parent, Step::Field(name))) => {
                parent.around(Value::Object(Map::from_iter([(name.to_owned(), value)])))
            }
        }
    }
}

impl Checker {
    fn resource(&mut self, node: &Node, path: &FieldPath) {
        let place = Place { resource: node, step: None, is_meta: false };
        self.default(node, place, true, path);
        self.inside(node, place, true, path);
    }

    fn node(&mut self, node: &Node, place: Place<'_>, path: &FieldPath) {
        if self.errors.is_full() {
            return;
        }
        if node.extensions.embedded_resource {
            self.resource(node, path);
        } else {
            self.default(node, place, false, path);
            self.inside(node, place, false, path);
        }
    }

    fn inside(&mut self, node: &Node, place: Place<'_>, is_resource: bool, path: &FieldPath) {
        if let Some(item) = node.item() {
            self.node(item, Place { step: Some((&place, Step::Item)), ..place }, &path.child("items"));
        }
        for (name, property) in &node.properties {
            let is_meta =
                place.is_meta || is_resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
            let place = Place { step: Some((&place, Step::Field(name))), is_meta, ..place };
            self.node(property, place, &path.child("properties").key(name));
        }
    }

    fn default(&mut self, node: &Node, place: Place<'_>, is_resource: bool, path: &FieldPath) {
        let Some(default) = &node.default else { return };
        let path = path.child("default");
        let coerced = if place.is_meta {
            self.in_metadata(default, place, &path)
        } else {
            self.elsewhere(node, default, is_resource, &path)
        };
        if let Some(default) = coerced {
            self.errors.extend(Validator::raw().validate(node, &default).into_errors(&path));
        }
    }

    /// The default, unless it makes metadata invalid.
    fn in_metadata(&mut self, default: &Value, place: Place<'_>, path: &FieldPath) -> Option<Value> {
        let mut object = place.around(default.clone());
        if let Value::Object(fields) = &mut object {
            fields.entry("kind").or_insert_with(|| "Validation".into());
            fields.entry("apiVersion").or_insert_with(|| "validation/v1".into());
        }
        let root = FieldPath::root();
        let errors =
            match embedded::coerce(place.resource, &mut object, true, &root, &mut UnknownPaths::default()) {
                Err(error) => vec![error],
                Ok(()) => embedded::validate(place.resource, &object, true, &root),
            };
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let text = match texts.as_slice() {
            [] => return Some(default.clone()),
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let detail = format!("must result in valid metadata: {text}");
        self.errors.push(FieldError::invalid(path, default.clone(), detail));
        None
    }

    /// The default as it is served, unless embedded resources in it are invalid.
    fn elsewhere(
        &mut self,
        node: &Node,
        default: &Value,
        is_resource: bool,
        path: &FieldPath,
    ) -> Option<Value> {
        let mut pruned = default.clone();
        prune::prune(node, &mut pruned, is_resource);
        let mut coerced = default.clone();
        let outcome = embedded::coerce(node, &mut coerced, is_resource, path, &mut UnknownPaths::default());
        if self.must_be_pruned && pruned != *default {
            self.errors.push(FieldError::invalid(path, coerced.clone(), "must not have unknown fields"));
        }
        let errors = match outcome {
            Err(error) => vec![error],
            Ok(()) => embedded::validate(node, &coerced, is_resource, path),
        };
        let is_fine = errors.is_empty();
        self.errors.extend(errors);
        is_fine.then_some(coerced)
    }
}

/// Brings all defaults into the form in which they are served: pruned, and with coerced metadata.
pub(super) fn prepare(node: &mut Node) {
    if let Some(mut default) = node.default.take() {
        let is_resource = node.extensions.embedded_resource;
        prune::prune(node, &mut default, is_resource);
        // Validation refused defaults that cannot be coerced.
        let _ = embedded::coerce(
            node,
            &mut default,
            is_resource,
            &FieldPath::root(),
            &mut UnknownPaths::default(),
        );
        node.default = Some(default);
    }
    node.properties.values_mut().for_each(prepare);
    if let Some(Items::One(item)) = &mut node.items {
        prepare(item);
    }
    if let Some(Additional::Schema(additional)) = &mut node.additional {
        prepare(additional);
    }
}

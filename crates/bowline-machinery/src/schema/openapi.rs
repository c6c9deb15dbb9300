//! The subset of `OpenAPI` that Kubernetes allows in a schema, and its extensions: checks of each schema alone.

use std::collections::BTreeSet;

use super::errors::Errors;
use super::field_path;
use super::node::{Additional, Dependency, Items, Node, Rule};
use super::structural;
use crate::{FieldError, FieldPath};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// The rules to enforce. An update relaxes those that the old schema already violates.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(super) struct Strictness {
    pub(super) known_types: bool,
    pub(super) pruned_defaults: bool,
    pub(super) atomic_sets: bool,
    pub(super) map_keys: bool,
}

impl Strictness {
    pub(super) const FULL: Self =
        Self { known_types: true, pruned_defaults: true, atomic_sets: true, map_keys: true };
}

/// Validates a schema and its inner ones.
pub(super) fn check(node: &Node, path: &FieldPath, strictness: Strictness) -> Vec<FieldError> {
    let mut checker = Checker { errors: Errors::default(), strictness };
    checker.node(node, path, &Place { is_root: true, ..Place::default() });
    checker.errors.into_vec()
}

/// Whether a type is unknown.
pub(super) fn has_unknown_type(node: &Node) -> bool {
    !node.kind.is_empty() && !TYPES.contains(&node.kind.as_str())
}

/// Whether a set has items whose parts could have different owners.
pub(super) fn has_loose_set(node: &Node) -> bool {
    node.extensions.list_type.as_deref() == Some("set")
        && node.item().is_some_and(|item| loose_part(item).is_some())
}

/// Whether a list that is a set or a map lacks required fields.
pub(super) fn has_loose_keys(node: &Node) -> bool {
    !map_keys(node, &FieldPath::root()).is_empty()
}

/// The position of a schema.
#[derive(Clone, Debug, Default)]
struct Place {
    is_root: bool,
    /// Inside the type or metadata of a resource.
    is_meta: bool,
    /// The reason why defaults are forbidden here.
    no_defaults: Option<String>,
}

struct Checker {
    errors: Errors,
    strictness: Strictness,
}

impl Checker {
    fn node(&mut self, node: &Node, path: &FieldPath, place: &Place) {
        if self.errors.is_full() {
            return;
        }
        self.plain(node, path, place);
        if node.limits.unique_items {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.errors.push(FieldError::forbidden(&path.child("uniqueItems"), detail));
        }
        self.fields(node, path, place);
        let below = Place { is_root: false, ..place.clone() };
        if let Some(not) = &node.not {
            self.node(not, &path.child("not"), &below);
        }
        for (name, nodes) in [("allOf", &node.all_of), ("oneOf", &node.one_of), ("anyOf", &node.any_of)] {
            for (index, inner) in nodes.iter().enumerate() {
                self.node(inner, &path.child(name).index(index), &below);
            }
        }
        for (name, inner) in &node.rare().definitions {
            self.node(inner, &path.child("definitions").key(name), &below);
        }
        match &node.items {
            Some(Items::One(item)) => self.node(item, &path.child("items"), &below),
            Some(Items::Each(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.node(item, &path.child("items").index(index), &below);
                }
            }
            None => {}
        }
        for (name, dependency) in node.rare().dependencies.iter().flatten() {
            if let Dependency::Schema(inner) = dependency {
                self.node(inner, &path.child("dependencies").key(name), &below);
            }
        }
        self.extensions(node, path);
        self.list_map(node, path);
        if self.strictness.map_keys {
            self.errors.extend(map_keys(node, path));
        }
        let has_path = node.rules.iter().any(|rule| !rule.field_path.is_empty());
        let schema = Some(node).filter(|node| has_path && structural::obstacle(node).is_none());
        for (index, rule) in node.rules.iter().enumerate() {
            self.rule(rule, schema, &path.child("x-kubernetes-validations").index(index));
        }
    }

    fn plain(&mut self, node: &Node, path: &FieldPath, place: &Place) {
        if self.strictness.known_types && has_unknown_type(node) {
            let at = path.child("type");
            self.errors.push(FieldError::not_supported(&at, node.kind.as_str(), &TYPES));
        }
        if let Some(reason) = place.no_defaults.as_ref().filter(|_| node.default.is_some()) {
            self.errors
                .push(FieldError::forbidden(&path.child("default"), format!("must not be set {reason}")));
        }
        let rare = node.rare();
        let is_list = matches!(&node.items, Some(Items::Each(nodes)) if !nodes.is_empty());
        let refused = [
            ("id", "id is not supported", !rare.id.is_empty()),
            ("additionalItems", "additionalItems is not supported", rare.additional_items.is_some()),
            ("patternProperties", "patternProperties is not supported", !rare.pattern_properties.is_empty()),
            ("definitions", "definitions is not supported", !rare.definitions.is_empty()),
            ("dependencies", "dependencies is not supported", rare.dependencies.is_some()),
            ("$ref", "$ref is not supported", rare.reference.is_some()),
            ("type", "type cannot be set to null, use nullable as an alternative", node.kind == "null"),
            ("items", "items must be a schema object and not an array", is_list),
            (
                "x-kubernetes-embedded-resource",
                "must not be used inside of resource meta",
                place.is_meta && node.extensions.embedded_resource,
            ),
        ];
        for (name, detail, _) in refused.into_iter().filter(|(_, _, is_there)| *is_there) {
            self.errors.push(FieldError::forbidden(&path.child(name), detail));
        }
    }

    fn fields(&mut self, node: &Node, path: &FieldPath, place: &Place) {
        let below = Place { is_root: false, ..place.clone() };
        let at = path.child("additionalProperties");
        if node.additional.as_ref().is_some_and(|additional| *additional != Additional::Allowed(true))
            && !node.properties.is_empty()
        {
            let detail = "additionalProperties and properties are mutual exclusive";
            self.errors.push(FieldError::forbidden(&at, detail));
        }
        if let Some(additional) = node.additional_schema() {
            let mut below = below.clone();
            if place.is_meta {
                below.no_defaults =
                    Some("inside additionalProperties applying to object metadata".to_owned());
            }
            self.node(additional, &at, &below);
        }
        let is_resource = place.is_root || node.extensions.embedded_resource;
        for (name, property) in &node.properties {
            let mut below = below.clone();
            if is_resource && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
                below.is_meta = true;
                if place.is_root {
                    below.no_defaults = Some(format!("in top-level {name}"));
                }
            }
            self.node(property, &path.child("properties").key(name), &below);
        }
    }

    /// Reports that a schema must have another type.
    fn expect_type(&mut self, node: &Node, path: &FieldPath, detail: &str) {
        let at = path.child("type");
        self.errors.push(if node.kind.is_empty() {
            FieldError::required(&at, detail)
        } else {
            FieldError::invalid(&at, node.kind.as_str(), detail)
        });
    }

    fn extensions(&mut self, node: &Node, path: &FieldPath) {
        let extensions = &node.extensions;
        if extensions.preserve_unknown_fields == Some(false) {
            let at = path.child("x-kubernetes-preserve-unknown-fields");
            self.errors.push(FieldError::invalid(&at, false, "must be true or undefined"));
        }
        if let Some(map_type) = extensions.map_type.as_deref() {
            if node.kind != "object" {
                self.expect_type(node, path, "must be object if x-kubernetes-map-type is specified");
            }
            let known = ["atomic", "granular"];
            if !known.contains(&map_type) {
                let at = path.child("x-kubernetes-map-type");
                self.errors.push(FieldError::not_supported(&at, map_type, &known));
            }
        }
        let Some(list_type) = extensions.list_type.as_deref() else {
            if !extensions.list_map_keys.is_empty() {
                let at = path.child("x-kubernetes-list-type");
                let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
                self.errors.push(FieldError::required(&at, detail));
            }
            return;
        };
        if node.kind != "array" {
            self.expect_type(node, path, "must be array if x-kubernetes-list-type is specified");
        } else if self.strictness.atomic_sets
            && list_type == "set"
            && let Some(item) = node.item()
            && let Some(part) = loose_part(item)
        {
            let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
            // The error of either prints the list type.
            let shown = item.extensions.list_type.clone();
            self.errors.push(FieldError::invalid(&path.child("items").child(part), shown, detail));
        }
        let known = ["atomic", "set", "map"];
        let at = path.child("x-kubernetes-list-type");
        if !known.contains(&list_type) {
            self.errors.push(FieldError::not_supported(&at, list_type, &known));
        }
        if !extensions.list_map_keys.is_empty() && list_type != "map" {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            self.errors.push(FieldError::invalid(&at, list_type, detail));
        }
    }

    fn list_map(&mut self, node: &Node, path: &FieldPath) {
        if node.extensions.list_type.as_deref() != Some("map") {
            return;
        }
        let keys = &node.extensions.list_map_keys;
        let at = path.child("x-kubernetes-list-map-keys");
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            self.errors.push(FieldError::required(&at, detail));
        }
        let items = path.child("items");
        let item = match &node.items {
            None => {
                let detail = "must have a schema if x-kubernetes-list-type is map";
                self.errors.push(FieldError::required(&items, detail));
                return;
            }
            Some(Items::Each(_)) => {
                let detail = "must only have a single schema if x-kubernetes-list-type is map";
                self.errors.push(FieldError::invalid(&items, serde_json::Value::Null, detail));
                return;
            }
            Some(Items::One(item)) => item,
        };
        if item.kind != "object" {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            self.errors.push(FieldError::invalid(&items.child("type"), item.kind.as_str(), detail));
            return;
        }
        let mut seen = BTreeSet::new();
        for key in keys {
            if self.errors.is_full() {
                return;
            }
            match item.properties.get(key).map(|property| property.kind.as_str()) {
                Some("array" | "object") => {
                    let at = items.child("properties").key(key).child("type");
                    let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.errors.push(FieldError::invalid(&at, item.kind.as_str(), detail));
                }
                Some(_) => {}
                None => {
                    let detail = "entries must all be names of item properties";
                    self.errors.push(FieldError::invalid(&at, keys.clone(), detail));
                }
            }
            if !seen.insert(key) {
                let detail = "must not contain duplicate entries";
                self.errors.push(FieldError::invalid(&at, keys.clone(), detail));
            }
        }
    }

    /// `schema` is set if paths can be resolved in it.
    fn rule(&mut self, rule: &Rule, schema: Option<&Node>, path: &FieldPath) {
        let has_break = |text: &str| text.contains(['\n', '\r']);
        let blank = |text: &str| !text.is_empty() && text.trim().is_empty();
        let (expression, message) = (rule.expression.trim(), rule.message.trim());
        let at = path.child("message");
        if expression.is_empty() {
            self.errors.push(FieldError::required(&path.child("rule"), "rule is not specified"));
        } else if blank(&rule.message) {
            self.errors.push(FieldError::invalid(
                &at,
                rule.message.as_str(),
                "must be non-empty if specified",
            ));
        } else if has_break(message) {
            self.errors.push(FieldError::invalid(&at, rule.message.as_str(), "must not contain line breaks"));
        } else if has_break(expression) && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            self.errors.push(FieldError::required(&at, detail));
        }
        if blank(&rule.message_expression) {
            let detail = "messageExpression must be non-empty if specified";
            self.errors.push(FieldError::required(&path.child("messageExpression"), detail));
        }
        if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
            self.errors.push(FieldError::not_supported(&path.child("reason"), reason, &REASONS));
        }
        let at = path.child("fieldPath");
        let mut wrong = |is_wrong: bool, detail: &str| {
            if is_wrong {
                self.errors.push(FieldError::invalid(&at, rule.field_path.as_str(), detail));
            }
        };
        wrong(blank(&rule.field_path), "must be non-empty if specified");
        wrong(has_break(&rule.field_path), "must not contain line breaks");
        let leads_nowhere = |schema| field_path::follow(&rule.field_path, schema, true).is_err();
        let is_wrong = !rule.field_path.is_empty() && schema.is_some_and(leads_nowhere);
        wrong(is_wrong, "must be a valid path");
    }
}

/// The property of an item of a set that lets its parts have different owners.
fn loose_part(item: &Node) -> Option<&'static str> {
    let extensions = &item.extensions;
    match item.kind.as_str() {
        "array" if extensions.list_type.as_deref().is_some_and(|list_type| list_type != "atomic") => {
            Some("x-kubernetes-list-type")
        }
        "object" if extensions.map_type.as_deref() != Some("atomic") => Some("x-kubernetes-map-type"),
        _ => None,
    }
}

/// Items of sets and maps must not be null, and a map's keys are required.
fn map_keys(node: &Node, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(list_type @ ("set" | "map")) = node.extensions.list_type.as_deref() else { return errors };
    let Some(item) = node.item() else { return errors };
    let at = path.child("items");
    if item.nullable {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&at.child("nullable"), detail));
    }
    if list_type == "set" {
        return errors;
    }
    for key in &node.extensions.list_map_keys {
        let Some(property) = item.properties.get(key) else { continue };
        let at = at.child("properties").key(key);
        let which = "this property is in x-kubernetes-list-map-keys";
        if !item.required.contains(key) && property.default.is_none() {
            let detail = format!("{which}, so it must have a default or be a required property");
            errors.push(FieldError::required(&at.child("default"), detail));
        }
        if property.nullable {
            let detail = format!("{which}, so it cannot be nullable");
            errors.push(FieldError::forbidden(&at.child("nullable"), detail));
        }
    }
    errors
}

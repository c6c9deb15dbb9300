//! Schemas parsed from JSON.
//!
//! Depth and number of schemas are limited, so that recursion over the tree is safe.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::errors::Errors;
use super::format::Format;
use super::node::{Additional, Dependency, Extensions, Items, Limits, Node, Rare, Rule};
use super::pattern::Patterns;
use crate::{FieldError, FieldPath};

/// Maximum nesting of schemas. A JSON parser stops at 128 levels, so clients never reach it.
const MAX_DEPTH: usize = 128;

/// Maximum number of schemas in one tree.
const MAX_NODES: usize = 65_536;

/// Parses a schema.
///
/// # Errors
/// Each field of the wrong JSON type with its path, or one error for a tree that is too deep or too large.
pub(super) fn read(schema: &Value, path: &FieldPath) -> Result<Node, Vec<FieldError>> {
    read_among(schema, path, &mut Patterns::default())
}

/// As [`read`], for one of several schemas that share a memory limit for their patterns.
///
/// # Errors
/// As [`read`].
pub(super) fn read_among(
    schema: &Value,
    path: &FieldPath,
    patterns: &mut Patterns,
) -> Result<Node, Vec<FieldError>> {
    let mut reader = Reader { errors: Errors::default(), nodes: 0, is_bounded: true, patterns };
    let node = reader.node(schema, path, 0);
    if !reader.is_bounded {
        let detail = format!(
            "must not be nested more than {MAX_DEPTH} levels deep, or have more than {MAX_NODES} schemas"
        );
        return Err(vec![FieldError::forbidden(path, detail)]);
    }
    let errors = reader.errors.into_vec();
    if errors.is_empty() { Ok(node) } else { Err(errors) }
}

struct Reader<'p> {
    errors: Errors,
    nodes: usize,
    is_bounded: bool,
    patterns: &'p mut Patterns,
}

impl Reader<'_> {
    fn node(&mut self, schema: &Value, path: &FieldPath, depth: usize) -> Node {
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            self.is_bounded = false;
            return Node::default();
        }
        match schema {
            Value::Object(map) => self.object(map, path, depth),
            Value::Null => Node::default(),
            other => {
                self.wrong(path, other, "must be a schema");
                Node::default()
            }
        }
    }

    fn object(&mut self, map: &Map<String, Value>, path: &FieldPath, depth: usize) -> Node {
        let mut node = Node::default();
        let mut rare = Rare::default();
        for (name, value) in map {
            if value.is_null() {
                continue;
            }
            let at = path.child(name);
            let below = depth + 1;
            match name.as_str() {
                "type" => node.kind = self.text(value, &at),
                "nullable" => node.nullable = self.flag(value, &at),
                "format" => node.format = Format::new(self.text(value, &at)),
                "default" => node.default = Some(value.clone()),
                "required" => node.required = self.texts(value, &at),
                "enum" => node.choices = self.list(value, &at).to_vec(),
                "items" => node.items = Some(self.items(value, &at, below)),
                "properties" => node.properties = self.map(value, &at, below),
                "additionalProperties" => node.additional = self.additional(value, &at, below),
                "allOf" => node.all_of = self.nodes(value, &at, below),
                "anyOf" => node.any_of = self.nodes(value, &at, below),
                "oneOf" => node.one_of = self.nodes(value, &at, below),
                "not" => node.not = Some(Box::new(self.node(value, &at, below))),
                "x-kubernetes-validations" => node.rules = self.rules(value, &at),
                "title" => rare.title = self.text(value, &at),
                "description" => rare.description = self.text(value, &at),
                "id" => rare.id = self.text(value, &at),
                "$schema" => rare.url = self.text(value, &at),
                "$ref" => rare.reference = Some(self.text(value, &at)),
                "example" => rare.example = Some(value.clone()),
                "externalDocs" => rare.external_docs = Some(self.docs(value, &at)),
                "patternProperties" => rare.pattern_properties = self.map(value, &at, below),
                "definitions" => rare.definitions = self.map(value, &at, below),
                "dependencies" => rare.dependencies = Some(self.dependencies(value, &at, below)),
                "additionalItems" => rare.additional_items = self.additional(value, &at, below),
                _ => {
                    self.limit(&mut node.limits, name, value, &at);
                    self.extension(&mut node.extensions, name, value, &at);
                }
            }
        }
        node.format.resolve(&node.kind, node.extensions.int_or_string);
        node.rare = (rare != Rare::default()).then(|| Box::new(rare));
        node
    }

    fn limit(&mut self, limits: &mut Limits, name: &str, value: &Value, at: &FieldPath) {
        match name {
            "maximum" => limits.maximum = self.number(value, at),
            "exclusiveMaximum" => limits.exclusive_maximum = self.flag(value, at),
            "minimum" => limits.minimum = self.number(value, at),
            "exclusiveMinimum" => limits.exclusive_minimum = self.flag(value, at),
            "multipleOf" => limits.multiple_of = self.number(value, at),
            "maxLength" => limits.max_length = self.integer(value, at),
            "minLength" => limits.min_length = self.integer(value, at),
            "pattern" => {
                let source = self.text(value, at);
                limits.pattern = self.patterns.pattern(&source);
            }
            "maxItems" => limits.max_items = self.integer(value, at),
            "minItems" => limits.min_items = self.integer(value, at),
            "uniqueItems" => limits.unique_items = self.flag(value, at),
            "maxProperties" => limits.max_properties = self.integer(value, at),
            "minProperties" => limits.min_properties = self.integer(value, at),
            _ => {}
        }
    }

    fn extension(&mut self, extensions: &mut Extensions, name: &str, value: &Value, at: &FieldPath) {
        match name {
            "x-kubernetes-preserve-unknown-fields" => {
                extensions.preserve_unknown_fields = Some(self.flag(value, at));
            }
            "x-kubernetes-embedded-resource" => extensions.embedded_resource = self.flag(value, at),
            "x-kubernetes-int-or-string" => extensions.int_or_string = self.flag(value, at),
            "x-kubernetes-list-type" => extensions.list_type = Some(self.text(value, at)),
            "x-kubernetes-list-map-keys" => extensions.list_map_keys = self.texts(value, at),
            "x-kubernetes-map-type" => extensions.map_type = Some(self.text(value, at)),
            _ => {}
        }
    }

    fn items(&mut self, value: &Value, at: &FieldPath, depth: usize) -> Items {
        match value {
            Value::Array(_) => Items::Each(self.nodes(value, at, depth)),
            _ => Items::One(Box::new(self.node(value, at, depth))),
        }
    }

    fn additional(&mut self, value: &Value, at: &FieldPath, depth: usize) -> Option<Additional> {
        match value {
            Value::Bool(allowed) => Some(Additional::Allowed(*allowed)),
            Value::Object(_) => Some(Additional::Schema(Box::new(self.node(value, at, depth)))),
            other => {
                self.wrong(at, other, "boolean or JSON schema expected");
                None
            }
        }
    }

    fn dependencies(&mut self, value: &Value, at: &FieldPath, depth: usize) -> BTreeMap<String, Dependency> {
        let mut dependencies = BTreeMap::new();
        for (name, value) in self.entries(value, at) {
            let at = at.key(name);
            let dependency = match value {
                Value::Array(_) => Dependency::Names(self.texts(value, &at)),
                _ => Dependency::Schema(Box::new(self.node(value, &at, depth))),
            };
            dependencies.insert(name.clone(), dependency);
        }
        dependencies
    }

    fn map(&mut self, value: &Value, at: &FieldPath, depth: usize) -> BTreeMap<String, Node> {
        let mut nodes = BTreeMap::new();
        for (name, value) in self.entries(value, at) {
            nodes.insert(name.clone(), self.node(value, &at.key(name), depth));
        }
        nodes
    }

    fn nodes(&mut self, value: &Value, at: &FieldPath, depth: usize) -> Vec<Node> {
        let list = self.list(value, at);
        list.iter().enumerate().map(|(index, value)| self.node(value, &at.index(index), depth)).collect()
    }

    fn rules(&mut self, value: &Value, at: &FieldPath) -> Vec<Rule> {
        let list = self.list(value, at);
        let mut rules = Vec::with_capacity(list.len());
        for (index, value) in list.iter().enumerate() {
            let mut rule = Rule::default();
            for (name, value) in self.entries(value, &at.index(index)) {
                let at = at.index(index).child(name);
                match (name.as_str(), value) {
                    (_, Value::Null) => {}
                    ("rule", value) => rule.expression = self.text(value, &at),
                    ("message", value) => rule.message = self.text(value, &at),
                    ("messageExpression", value) => rule.message_expression = self.text(value, &at),
                    ("reason", value) => rule.reason = Some(self.text(value, &at)),
                    ("fieldPath", value) => rule.field_path = self.text(value, &at),
                    ("optionalOldSelf", value) => rule.optional_old_self = Some(self.flag(value, &at)),
                    _ => {}
                }
            }
            rules.push(rule);
        }
        rules
    }

    fn docs(&mut self, value: &Value, at: &FieldPath) -> (String, String) {
        if !value.is_object() {
            self.wrong(at, value, "must be an object");
        }
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        (text("description"), text("url"))
    }

    fn entries<'v>(
        &mut self,
        value: &'v Value,
        at: &FieldPath,
    ) -> impl Iterator<Item = (&'v String, &'v Value)> + use<'v> {
        let entries = value.as_object();
        if entries.is_none() {
            self.wrong(at, value, "must be an object");
        }
        entries.into_iter().flatten()
    }

    fn list<'v>(&mut self, value: &'v Value, at: &FieldPath) -> &'v [Value] {
        value.as_array().map_or_else(
            || {
                self.wrong(at, value, "must be an array");
                [].as_slice()
            },
            Vec::as_slice,
        )
    }

    fn texts(&mut self, value: &Value, at: &FieldPath) -> Vec<String> {
        let list = self.list(value, at);
        list.iter().enumerate().map(|(index, value)| self.text(value, &at.index(index))).collect()
    }

    fn text(&mut self, value: &Value, at: &FieldPath) -> String {
        value.as_str().map_or_else(
            || {
                self.wrong(at, value, "must be a string");
                String::new()
            },
            str::to_owned,
        )
    }

    fn flag(&mut self, value: &Value, at: &FieldPath) -> bool {
        value.as_bool().unwrap_or_else(|| {
            self.wrong(at, value, "must be a boolean");
            false
        })
    }

    fn number(&mut self, value: &Value, at: &FieldPath) -> Option<f64> {
        let number = value.as_f64();
        if number.is_none() {
            self.wrong(at, value, "must be a number");
        }
        number
    }

    fn integer(&mut self, value: &Value, at: &FieldPath) -> Option<i64> {
        let number = value.as_i64();
        if number.is_none() {
            self.wrong(at, value, "must be an integer");
        }
        number
    }

    fn wrong(&mut self, at: &FieldPath, value: &Value, detail: &str) {
        if !self.errors.is_full() {
            self.errors.push(FieldError::type_invalid(at, value.clone(), detail));
        }
    }
}

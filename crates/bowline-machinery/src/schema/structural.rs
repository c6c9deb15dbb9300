//! Structural schemas: every field with rules must also be specified outside of `allOf`, `anyOf`, `oneOf` and `not`.

use std::collections::BTreeMap;

use super::errors::Errors;
use super::node::{Additional, Items, Node};
use crate::{FieldError, FieldPath};

/// The reason why a schema cannot be converted to a structural one; reported only if it is the only error.
pub(super) fn obstacle(node: &Node) -> Option<String> {
    let mut found = None;
    node.any(&mut |node| {
        found = own_obstacle(node);
        found.is_some()
    });
    found
}

fn own_obstacle(node: &Node) -> Option<String> {
    let rare = node.rare();
    let unsupported = [
        ("id", !rare.id.is_empty()),
        ("schema", !rare.url.is_empty()),
        ("$ref", rare.reference.as_ref().is_some_and(|reference| !reference.is_empty())),
        ("patternProperties", !rare.pattern_properties.is_empty()),
        ("dependencies", rare.dependencies.as_ref().is_some_and(|dependencies| !dependencies.is_empty())),
        ("additionalItems", rare.additional_items.is_some()),
        ("definitions", !rare.definitions.is_empty()),
    ];
    if let Some((name, _)) = unsupported.into_iter().find(|(_, is_there)| *is_there) {
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    if matches!(&node.items, Some(Items::Each(nodes)) if !nodes.is_empty()) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    if node.extensions.preserve_unknown_fields == Some(false) {
        let name = "x-kubernetes-preserve-unknown-fields";
        return Some(format!("internal error: '{name}' must be true or undefined"));
    }
    None
}

/// The violations of the structural rules, sorted.
pub(super) fn check(node: &Node, path: &FieldPath) -> Vec<FieldError> {
    let mut checker = Checker { errors: Errors::default() };
    checker.structure(node, Level::Root, path);
    checker.is_specified(node, Some(node), path, path);
    let mut errors: Vec<(String, FieldError)> =
        checker.errors.into_vec().into_iter().map(|error| (error.to_string(), error)).collect();
    errors.sort_by(|(a, _), (b, _)| a.cmp(b));
    errors.into_iter().map(|(_, error)| error).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

struct Checker {
    errors: Errors,
}

impl Checker {
    fn forbid(&mut self, is_there: bool, path: &FieldPath, name: &str, detail: &str) {
        if is_there {
            self.errors.push(FieldError::forbidden(&path.child(name), detail));
        }
    }

    fn require(&mut self, path: &FieldPath, name: &str, detail: &str) {
        self.errors.push(FieldError::required(&path.child(name), detail));
    }

    fn structure(&mut self, node: &Node, level: Level, path: &FieldPath) {
        if self.errors.is_full() {
            return;
        }
        if node.kind == "array" && node.items.is_none() {
            self.require(path, "items", "must be specified");
        }
        if let Some(item) = node.item() {
            self.structure(item, Level::Item, &path.child("items"));
        }
        for (name, property) in &node.properties {
            self.structure(property, Level::Field, &path.child("properties").key(name));
        }
        if let Some(additional) = &node.additional {
            self.forbid(level == Level::Root, path, "additionalProperties", "must not be used at the root");
            if let Additional::Schema(additional) = additional {
                self.structure(additional, Level::Field, &path.child("additionalProperties"));
            }
        }
        self.extensions(node, path);
        let skip_any_of = is_int_or_string(&node.any_of);
        let skip_first_all_of = node.all_of.first().is_some_and(|first| is_int_or_string(&first.any_of));
        self.junctions(node, skip_any_of, skip_first_all_of, path);
        self.kind(node, level, path);
        self.resource(node, level, path);
    }

    fn extensions(&mut self, node: &Node, path: &FieldPath) {
        let extensions = &node.extensions;
        let detail = "must be false if x-kubernetes-int-or-string is true";
        let wrong = [
            ("x-kubernetes-preserve-unknown-fields", node.preserves_unknown_fields()),
            ("x-kubernetes-embedded-resource", extensions.embedded_resource),
        ];
        for (name, is_there) in wrong {
            if extensions.int_or_string && is_there {
                self.errors.push(FieldError::invalid(&path.child(name), true, detail));
            }
        }
    }

    fn kind(&mut self, node: &Node, level: Level, path: &FieldPath) {
        let extensions = &node.extensions;
        let kind = node.kind.as_str();
        if extensions.embedded_resource && kind != "object" {
            let detail = "must be object if x-kubernetes-embedded-resource is true";
            if kind.is_empty() {
                self.require(path, "type", detail);
            } else {
                self.errors.push(FieldError::invalid(&path.child("type"), kind, detail));
            }
        } else if kind.is_empty() && !extensions.int_or_string && !node.preserves_unknown_fields() {
            let detail = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            self.require(path, "type", detail);
        }
        if level == Level::Root && !kind.is_empty() && kind != "object" {
            self.errors.push(FieldError::invalid(&path.child("type"), kind, "must be object at the root"));
        }
    }

    /// Checks the rules for a resource, at the root or embedded.
    fn resource(&mut self, node: &Node, level: Level, path: &FieldPath) {
        let is_embedded = node.extensions.embedded_resource;
        let is_resource = level == Level::Root || is_embedded;
        let properties = path.child("properties");
        if is_embedded && node.additional.is_some() {
            let detail = "must not be used if x-kubernetes-embedded-resource is set";
            self.forbid(true, path, "additionalProperties", detail);
        }
        for (name, kind) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
            if let Some(property) = node.properties.get(name).filter(|_| is_resource)
                && property.kind != kind
            {
                let at = properties.key(name).child("type");
                self.errors.push(FieldError::invalid(&at, property.kind.as_str(), format!("must be {kind}")));
            }
        }
        if let Some(metadata) = node.properties.get("metadata")
            && level == Level::Root
            && !is_plain_metadata(metadata)
        {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.errors.push(FieldError::forbidden(&properties.key("metadata"), detail));
        }
        if is_embedded && !node.preserves_unknown_fields() && node.properties.is_empty() {
            let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            self.require(path, "properties", detail);
        }
    }

    fn junctions(&mut self, node: &Node, skip_any_of: bool, skip_first_all_of: bool, path: &FieldPath) {
        if !skip_any_of {
            for (index, inner) in node.any_of.iter().enumerate() {
                self.nested(inner, false, &path.child("anyOf").index(index));
            }
        }
        for (index, inner) in node.all_of.iter().enumerate() {
            self.nested(inner, skip_first_all_of && index == 0, &path.child("allOf").index(index));
        }
        for (index, inner) in node.one_of.iter().enumerate() {
            self.nested(inner, false, &path.child("oneOf").index(index));
        }
        if let Some(not) = &node.not {
            self.nested(not, false, &path.child("not"));
        }
        if let Some(pattern) = &node.limits.pattern
            && let Some(error) = pattern.error()
        {
            let detail = format!("must be a valid regular expression, but isn't: {error}");
            self.errors.push(FieldError::invalid(&path.child("pattern"), pattern.source(), detail));
        }
    }

    /// Checks the fields of a schema inside a junction.
    fn nested(&mut self, node: &Node, skip_any_of: bool, path: &FieldPath) {
        if self.errors.is_full() {
            return;
        }
        self.junctions(node, skip_any_of, false, path);
        if let Some(item) = node.item() {
            self.nested(item, false, &path.child("items"));
        }
        for (name, property) in &node.properties {
            self.nested(property, false, &path.child("properties").key(name));
        }
        let (empty, undefined, no) = (
            "must be empty to be structural",
            "must be undefined to be structural",
            "must be false to be structural",
        );
        let additional = !matches!(node.additional, None | Some(Additional::Allowed(false)));
        let extensions = &node.extensions;
        self.forbid(!node.kind.is_empty(), path, "type", empty);
        self.forbid(additional, path, "additionalProperties", undefined);
        self.forbid(node.default.is_some(), path, "default", undefined);
        self.forbid(!node.rare().title.is_empty(), path, "title", empty);
        self.forbid(!node.rare().description.is_empty(), path, "description", empty);
        self.forbid(node.nullable, path, "nullable", no);
        self.forbid(node.preserves_unknown_fields(), path, "x-kubernetes-preserve-unknown-fields", no);
        self.forbid(extensions.embedded_resource, path, "x-kubernetes-embedded-resource", no);
        self.forbid(extensions.int_or_string, path, "x-kubernetes-int-or-string", no);
        self.forbid(!extensions.list_map_keys.is_empty(), path, "x-kubernetes-list-map-keys", empty);
        self.forbid(extensions.list_type.is_some(), path, "x-kubernetes-list-type", undefined);
        self.forbid(extensions.map_type.is_some(), path, "x-kubernetes-map-type", undefined);
        self.forbid(!node.rules.is_empty(), path, "x-kubernetes-validations", empty);
        if node.properties.contains_key("metadata") {
            let at = path.child("properties").key("metadata");
            self.errors.push(FieldError::forbidden(&at, "must not be specified in a nested context"));
        }
    }

    /// Checks that all fields in junctions are specified outside of them. `structure` is the outer schema, at `path`;
    /// `node` the inner one, at `nested`.
    fn is_specified(&mut self, node: &Node, structure: Option<&Node>, path: &FieldPath, nested: &FieldPath) {
        if self.errors.is_full() {
            return;
        }
        let Some(structure) = structure else {
            self.errors.push(FieldError::required(path, format!("because it is defined in {nested}")));
            return;
        };
        if let Some(not) = &node.not {
            self.fields_are_specified(not, structure, path, &nested.child("not"));
        }
        let junctions = [("allOf", &node.all_of), ("anyOf", &node.any_of), ("oneOf", &node.one_of)];
        for (name, schemas) in junctions {
            for (index, inner) in schemas.iter().enumerate() {
                self.fields_are_specified(inner, structure, path, &nested.child(name).index(index));
            }
        }
    }

    fn fields_are_specified(&mut self, node: &Node, structure: &Node, path: &FieldPath, nested: &FieldPath) {
        self.is_specified(node, Some(structure), path, nested);
        if let Some(item) = node.item() {
            let (path, nested) = (path.child("items"), nested.child("items"));
            match structure.item() {
                Some(structure) => self.fields_are_specified(item, structure, &path, &nested),
                None => self.is_specified(item, None, &path, &nested),
            }
        }
        for (name, property) in &node.properties {
            let (path, nested) = (path.child("properties").key(name), nested.child("properties").key(name));
            match structure.properties.get(name) {
                Some(structure) => self.fields_are_specified(property, structure, &path, &nested),
                None => self.is_specified(property, None, &path, &nested),
            }
        }
    }
}

/// Whether the alternatives are exactly "integer" and "string".
fn is_int_or_string(any_of: &[Node]) -> bool {
    let is_only = |node: &Node, kind: &str| *node == Node { kind: kind.to_owned(), ..Node::default() };
    matches!(any_of, [integer, string] if is_only(integer, "integer") && is_only(string, "string"))
}

fn is_plain_metadata(metadata: &Node) -> bool {
    let mut rest = metadata.clone();
    let may_be_there = |name: &String| name == "name" || name == "generateName";
    if rest.properties.keys().all(may_be_there) {
        rest.properties = BTreeMap::new();
    }
    rest.kind = String::new();
    rest.default = None;
    rest == Node::default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::read;

    fn errors(schema: &serde_json::Value) -> Vec<String> {
        let path = FieldPath::new("s");
        let node = read::read(schema, &path).unwrap();
        check(&node, &path).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn fields_in_a_junction_must_be_specified_outside() {
        let schema = json!({
            "type": "object",
            "properties": {"spec": {"type": "object", "anyOf": [{"properties": {"a": {"minimum": 1}}}]}},
        });
        // As in Kubernetes, only the junctions of the root are checked.
        assert_eq!(errors(&schema), [""; 0]);
        let schema = json!({"type": "object", "not": {"properties": {"a": {}}, "items": {}}});
        assert_eq!(
            errors(&schema),
            [
                "s.items: Required value: because it is defined in s.not.items",
                "s.properties[a]: Required value: because it is defined in s.not.properties[a]",
            ]
        );
    }
}

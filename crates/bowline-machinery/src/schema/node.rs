//! One schema and its inner ones: the tree that the rest of this module walks.

use std::collections::BTreeMap;

use serde_json::Value;

use super::format::Format;
use super::pattern::Pattern;

/// One schema. Absent and empty are the same unless the type separates them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Node {
    pub(super) kind: String,
    pub(super) nullable: bool,
    pub(super) format: Format,
    pub(super) default: Option<Value>,
    pub(super) limits: Limits,
    pub(super) required: Vec<String>,
    pub(super) choices: Vec<Value>,
    pub(super) items: Option<Items>,
    pub(super) properties: BTreeMap<String, Node>,
    pub(super) additional: Option<Additional>,
    pub(super) all_of: Vec<Node>,
    pub(super) any_of: Vec<Node>,
    pub(super) one_of: Vec<Node>,
    pub(super) not: Option<Box<Node>>,
    pub(super) extensions: Extensions,
    pub(super) rules: Vec<Rule>,
    /// Fields that are rare or not supported.
    pub(super) rare: Option<Box<Rare>>,
}

/// Limits of a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Limits {
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_maximum: bool,
    pub(super) minimum: Option<f64>,
    pub(super) exclusive_minimum: bool,
    pub(super) multiple_of: Option<f64>,
    pub(super) max_length: Option<i64>,
    pub(super) min_length: Option<i64>,
    pub(super) pattern: Option<Pattern>,
    pub(super) max_items: Option<i64>,
    pub(super) min_items: Option<i64>,
    pub(super) unique_items: bool,
    pub(super) max_properties: Option<i64>,
    pub(super) min_properties: Option<i64>,
}

/// The schema of a list's items.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Items {
    One(Box<Node>),
    /// One schema for each item: refused, but parsed for validation.
    Each(Vec<Node>),
}

/// The rule for fields that are not in `properties`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Additional {
    Allowed(bool),
    Schema(Box<Node>),
}

/// The extensions of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Extensions {
    pub(super) preserve_unknown_fields: Option<bool>,
    pub(super) embedded_resource: bool,
    pub(super) int_or_string: bool,
    pub(super) list_type: Option<String>,
    pub(super) list_map_keys: Vec<String>,
    pub(super) map_type: Option<String>,
}

/// One rule of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rule {
    pub(super) expression: String,
    pub(super) message: String,
    pub(super) message_expression: String,
    pub(super) reason: Option<String>,
    pub(super) field_path: String,
    pub(super) optional_old_self: Option<bool>,
}

/// Fields that are rare or not supported.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rare {
    pub(super) title: String,
    pub(super) description: String,
    pub(super) id: String,
    pub(super) url: String,
    pub(super) reference: Option<String>,
    pub(super) example: Option<Value>,
    pub(super) external_docs: Option<(String, String)>,
    pub(super) pattern_properties: BTreeMap<String, Node>,
    pub(super) definitions: BTreeMap<String, Node>,
    pub(super) dependencies: Option<BTreeMap<String, Dependency>>,
    pub(super) additional_items: Option<Additional>,
}

/// A `dependencies` entry; refused.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Dependency {
    Schema(Box<Node>),
    Names(Vec<String>),
}

impl Node {
    /// The schema of all items of a list.
    pub(super) fn item(&self) -> Option<&Node> {
        match &self.items {
            Some(Items::One(node)) => Some(node),
            _ => None,
        }
    }

    /// The schema of fields that are not in `properties`.
    pub(super) fn additional_schema(&self) -> Option<&Node> {
        match &self.additional {
            Some(Additional::Schema(node)) => Some(node),
            _ => None,
        }
    }

    /// The schema of one field.
    pub(super) fn field(&self, name: &str) -> Option<&Node> {
        self.properties.get(name).or_else(|| self.additional_schema())
    }

    pub(super) fn preserves_unknown_fields(&self) -> bool {
        self.extensions.preserve_unknown_fields == Some(true)
    }

    pub(super) fn rare(&self) -> &Rare {
        static NOTHING: Rare = Rare {
            title: String::new(),
            description: String::new(),
            id: String::new(),
            url: String::new(),
            reference: None,
            example: None,
            external_docs: None,
            pattern_properties: BTreeMap::new(),
            definitions: BTreeMap::new(),
            dependencies: None,
            additional_items: None,
        };
        self.rare.as_deref().unwrap_or(&NOTHING)
    }

    /// Calls `visit` for this schema and all inner ones until it returns `true`, and returns whether it did.
    pub(super) fn any(&self, visit: &mut dyn FnMut(&Node) -> bool) -> bool {
        if visit(self) {
            return true;
        }
        let items: &[Node] = match &self.items {
            None => &[],
            Some(Items::One(node)) => std::slice::from_ref(&**node),
            Some(Items::Each(nodes)) => nodes,
        };
        let mut inside = items
            .iter()
            .chain(&self.all_of)
            .chain(&self.any_of)
            .chain(&self.one_of)
            .chain(self.not.as_deref())
            .chain(self.properties.values())
            .chain(self.additional_schema());
        if inside.any(|node| node.any(visit)) {
            return true;
        }
        let rare = self.rare();
        let dependencies =
            rare.dependencies.iter().flatten().filter_map(|(_, dependency)| match dependency {
                Dependency::Schema(node) => Some(&**node),
                Dependency::Names(_) => None,
            });
        let mut unsupported =
            rare.pattern_properties.values().chain(rare.definitions.values()).chain(dependencies);
        unsupported.any(|node| node.any(visit))
    }
}

//! Setting defaults, and removing nulls that the schema does not allow.

use serde_json::Value;

use super::node::Node;

/// Removes nulls whose schema has neither `nullable` nor a default.
pub(super) fn prune_nulls(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let Some(field) = node.field(name) else { return true };
            if value.is_null() {
                return field.nullable || field.default.is_some();
            }
            prune_nulls(field, value);
            true
        }),
        Value::Array(items) => {
            if let Some(item) = node.item() {
                for value in items {
                    prune_nulls(item, value);
                }
            }
        }
        _ => {}
    }
}

/// Maximum bytes of JSON that defaults may add to an object: twice the maximum size of an object in etcd, so that every
/// object that could be stored gets all its defaults.
const MAX_ADDED: usize = 3 << 20;

/// Sets defaults for fields that are missing, or null without `nullable`. Returns whether all were set; defaulting
/// stops after [`MAX_ADDED`] bytes.
pub(super) fn default(node: &Node, value: &mut Value) -> bool {
    let mut defaulter = Defaulter { added: 0 };
    defaulter.value(node, value);
    !defaulter.is_full()
}

struct Defaulter {
    added: usize,
}

impl Defaulter {
    fn is_full(&self) -> bool {
        self.added > MAX_ADDED
    }

    fn value(&mut self, node: &Node, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, property) in &node.properties {
                    if let Some(default) = &property.default
                        && fields.get(name).is_none_or(|value| value.is_null() && !property.nullable)
                        && !self.is_full()
                    {
                        self.added += name.len() + length(default);
                        fields.insert(name.clone(), default.clone());
                    }
                }
                for (name, value) in fields.iter_mut() {
                    if let Some(property) = node.properties.get(name) {
                        self.value(property, value);
                    } else if let Some(additional) = node.additional_schema() {
                        self.element(additional, value);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(item) = node.item() {
                    for value in items {
                        self.element(item, value);
                    }
                }
            }
            _ => {}
        }
    }

    fn element(&mut self, node: &Node, value: &mut Value) {
        if let Some(default) = &node.default
            && value.is_null()
            && !node.nullable
            && !self.is_full()
        {
            self.added += length(default);
            *value = default.clone();
        }
        self.value(node, value);
    }
}

/// A lower bound of the length of a value as JSON, proportional to it. Recurses at most as deep as a schema may be
/// nested.
fn length(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().fold(2, |sum, item| sum + length(item)),
        Value::Object(fields) => {
            fields.iter().fold(2, |sum, (name, value)| sum + name.len() + 3 + length(value))
        }
    }
}

//! Defaults are put where values are missing, and nulls taken away where they mean nothing.

use serde_json::Value;

use super::node::Node;

/// Removes nulls from objects whose schema neither allows them nor has a default to put in their place.
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

/// Puts defaults where fields are missing, or null without being allowed to.
pub(super) fn default(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &node.properties {
                if let Some(default) = &property.default
                    && fields.get(name).is_none_or(|value| value.is_null() && !property.nullable)
                {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields.iter_mut() {
                if let Some(property) = node.properties.get(name) {
                    default(property, value);
                } else if let Some(additional) = node.additional_schema() {
                    element(additional, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item) = node.item() {
                for value in items {
                    element(item, value);
                }
            }
        }
        _ => {}
    }
}

fn element(node: &Node, value: &mut Value) {
    if value.is_null() && !node.nullable {
        *value = node.default.clone().unwrap_or_default();
    }
    default(node, value);
}

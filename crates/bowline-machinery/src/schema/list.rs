//! Lists that are sets or maps: duplicate items and duplicate keys.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::errors::Errors;
use super::node::Node;
use crate::{FieldError, FieldPath, go_text};

/// Validates that lists of type set or map contain no duplicates.
pub(super) fn validate(node: &Node, value: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Errors::default();
    walk(node, value, path, &mut errors);
    errors.into_vec()
}

fn walk(node: &Node, value: &Value, path: &FieldPath, errors: &mut Errors) {
    if errors.is_full() {
        return;
    }
    match value {
        Value::Object(fields) => {
            if let Some(additional) = node.additional_schema() {
                for (name, value) in fields.iter().filter(|(_, value)| has_elements(value)) {
                    walk(additional, value, &path.key(name), errors);
                }
            }
            for (name, value) in fields.iter().filter(|(_, value)| has_elements(value)) {
                if let Some(property) = node.properties.get(name) {
                    walk(property, value, &path.child(name), errors);
                }
            }
        }
        Value::Array(items) => {
            match node.extensions.list_type.as_deref() {
                Some("set") => set(items, path, errors),
                Some("map") => map(&node.extensions.list_map_keys, items, path, errors),
                _ => {}
            }
            if let Some(item) = node.item() {
                for (index, value) in items.iter().enumerate().filter(|(_, value)| has_elements(value)) {
                    walk(item, value, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn has_elements(value: &Value) -> bool {
    value.is_array() || value.is_object()
}

fn set(items: &[Value], path: &FieldPath, errors: &mut Errors) {
    let keys = items.iter().map(|item| (key(item), item));
    let found = repeated(keys).into_iter();
    errors.extend(found.map(|(index, item)| FieldError::duplicate(&path.index(index), item.clone())));
}

fn map(names: &[String], items: &[Value], path: &FieldPath, errors: &mut Errors) {
    if let Some((index, item)) =
        items.iter().enumerate().find(|(_, item)| !item.is_object() && !item.is_null())
    {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(&path.index(index), item.clone(), detail));
        return;
    }
    let keys = items.iter().map(|item| {
        let fields = names.iter().filter_map(|name| Some((name.clone(), item.get(name)?.clone())));
        let fields: Map<String, Value> = fields.collect();
        let text: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", key(value))).collect();
        (text.join(","), Value::Object(fields))
    });
    let found = repeated(keys).into_iter();
    errors.extend(found.map(|(index, item)| FieldError::duplicate(&path.index(index), item)));
}

/// The later ones of equal keys, with their indexes.
fn repeated<T>(keys: impl Iterator<Item = (String, T)>) -> Vec<(usize, T)> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (index, (key, item)) in keys.enumerate() {
        let times = seen.entry(key).or_default();
        *times += 1;
        if *times == 2 {
            found.push((index, item));
        }
    }
    found
}

/// A text that is equal only for equal values. As in Go, numbers of different types differ.
fn key(value: &Value) -> String {
    match value {
        Value::Number(number) if number.as_i64().is_none() => {
            format!("{}f", number.as_f64().unwrap_or_default())
        }
        value => go_text::json(value),
    }
}

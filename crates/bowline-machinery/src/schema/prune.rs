//! Removal, or listing, of unknown fields.

use std::fmt::Write as _;

use serde_json::Value;

use super::node::{Additional, Node};
use super::unknown::UnknownPaths;

/// Fields that every resource has, without a schema.
fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// Removes unknown fields. If the value is a resource, its type and metadata stay.
pub(super) fn prune(node: &Node, value: &mut Value, is_resource: bool) {
    Pruner { found: None }.value(Some(node), value, Mode { is_resource, is_kept: false });
}

/// The paths of the fields that [`prune`] would remove.
pub(super) fn unknown_fields(node: &Node, value: &Value, is_resource: bool) -> UnknownPaths {
    let mut copy = value.clone();
    let mut pruner = Pruner { found: Some(Found::default()) };
    pruner.value(Some(node), &mut copy, Mode { is_resource, is_kept: false });
    pruner.found.map(|found| found.paths).unwrap_or_default()
}

#[derive(Default)]
struct Found {
    here: String,
    paths: UnknownPaths,
}

struct Pruner {
    found: Option<Found>,
}

/// Rules for a value in addition to its own schema.
#[derive(Clone, Copy, Default)]
struct Mode {
    /// It has a type and metadata.
    is_resource: bool,
    /// It is an item of a list that preserves unknown fields.
    is_kept: bool,
}

impl Pruner {
    fn value(&mut self, node: Option<&Node>, value: &mut Value, mode: Mode) {
        let is_kept = mode.is_kept || node.is_some_and(Node::preserves_unknown_fields);
        let is_resource = mode.is_resource || node.is_some_and(|node| node.extensions.embedded_resource);
        match value {
            Value::Object(fields) => fields.retain(|name, value| {
                if is_resource && is_meta(name) {
                    return true;
                }
                let field = node.and_then(|node| match (node.properties.get(name), &node.additional) {
                    (Some(property), _) => Some(Some(property)),
                    (None, Some(Additional::Schema(additional))) => Some(Some(&**additional)),
                    (None, Some(Additional::Allowed(_))) => Some(None),
                    (None, None) => None,
                });
                if let Some(schema) = field {
                    self.step(name, |pruner| pruner.value(schema, value, Mode::default()));
                } else if !is_kept {
                    self.record(name, node.is_some());
                }
                is_kept || field.is_some()
            }),
            Value::Array(items) => {
                let item = node.and_then(Node::item);
                if is_kept && item.is_none() {
                    return;
                }
                for (index, value) in items.iter_mut().enumerate() {
                    let mode = Mode { is_resource: false, is_kept };
                    self.index(index, |pruner| pruner.value(item, value, mode));
                }
            }
            _ => {}
        }
    }

    fn record(&mut self, name: &str, has_schema: bool) {
        let Some(found) = &mut self.found else { return };
        if has_schema && found.here.is_empty() && is_meta(name) {
            return;
        }
        let Found { here, paths } = found;
        let dot = if here.is_empty() { "" } else { "." };
        paths.add(|| format!("{here}{dot}{name}"));
    }

    fn step(&mut self, name: &str, f: impl FnOnce(&mut Self)) {
        let length = self.found.as_ref().map_or(0, |found| found.here.len());
        if let Some(Found { here, .. }) = &mut self.found {
            if !here.is_empty() {
                here.push('.');
            }
            here.push_str(name);
        }
        f(self);
        self.back_to(length);
    }

    fn index(&mut self, index: usize, f: impl FnOnce(&mut Self)) {
        let length = self.found.as_ref().map_or(0, |found| found.here.len());
        if let Some(found) = &mut self.found {
            // Writing to a string does not fail.
            let _ = write!(found.here, "[{index}]");
        }
        f(self);
        self.back_to(length);
    }

    fn back_to(&mut self, length: usize) {
        if let Some(found) = &mut self.found {
            found.here.truncate(length);
        }
    }
}

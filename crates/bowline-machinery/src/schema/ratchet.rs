//! Validation ratcheting: pairs old values with new ones, so that unchanged errors can be ignored.

use std::collections::BTreeMap;

use serde_json::Value;

use super::node::Node;

/// The old value that corresponds to a new one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Correlation<'a> {
    old: &'a Value,
    node: &'a Node,
}

impl<'a> Correlation<'a> {
    pub(super) fn new(old: &'a Value, node: &'a Node) -> Self {
        Self { old, node }
    }

    /// The old value of a field.
    pub(super) fn field(self, name: &str) -> Option<Self> {
        Some(Self { old: self.old.get(name)?, node: self.node.field(name)? })
    }

    /// The old items of a list of type map: only those have an identity.
    pub(super) fn items(self) -> Option<Items<'a>> {
        if self.node.extensions.list_type.as_deref() != Some("map") {
            return None;
        }
        let mut items = Items {
            keys: &self.node.extensions.list_map_keys,
            node: self.node.item()?,
            old: BTreeMap::new(),
        };
        for old in self.old.as_array()? {
            if let Some(key) = items.key(old) {
                items.old.entry(key).or_insert(old);
            }
        }
        Some(items)
    }

    /// Whether the value is unchanged, by the comparison that the schema defines.
    pub(super) fn is_unchanged(self, new: &Value) -> bool {
        match (self.old, new) {
            (Value::Object(old), Value::Object(new)) => {
                old.len() == new.len()
                    && new
                        .iter()
                        .all(|(name, value)| self.field(name).is_some_and(|field| field.is_unchanged(value)))
            }
            (Value::Array(old), Value::Array(new)) if old.len() == new.len() => match self.items() {
                Some(items) => {
                    new.iter().all(|value| items.get(value).is_some_and(|item| item.is_unchanged(value)))
                }
                None => old == new,
            },
            (old, new) => old == new,
        }
    }
}

/// The old items of a list that is a map.
pub(super) struct Items<'a> {
    keys: &'a [String],
    node: &'a Node,
    old: BTreeMap<String, &'a Value>,
}

impl<'a> Items<'a> {
    /// The old value of an item.
    pub(super) fn get(&self, new: &Value) -> Option<Correlation<'a>> {
        let old = self.old.get(&self.key(new)?)?;
        Some(Correlation { old, node: self.node })
    }

    /// The key of an item; only scalars count.
    fn key(&self, item: &Value) -> Option<String> {
        let scalar =
            |key| item.get(key).filter(|value| value.is_string() || value.is_number() || value.is_boolean());
        let values: Option<Vec<String>> =
            self.keys.iter().map(|key| scalar(key).map(ToString::to_string)).collect();
        values.map(|values| values.join(","))
    }
}

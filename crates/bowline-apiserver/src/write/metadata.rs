//! The metadata of an updated object: fields that are kept, and the generation.

use serde_json::{Map, Value};

use super::Write;
use crate::object::{metadata, metadata_mut};
use crate::resource::{Generation, WriteTarget};

impl Write<'_> {
    /// Restores fields that an update cannot change, and increments the generation if needed.
    pub(super) fn carry_over(&self, part: WriteTarget, new: &mut Value, old: &Value) {
        let old_metadata = metadata(old).cloned().unwrap_or_default();
        let new_metadata = metadata_mut(new);
        new_metadata.remove("managedFields");
        new_metadata.remove("selfLink");
        copy("generation", new_metadata, &old_metadata);
        self.resource.behaviour.prepare_update(part, new, old);
        let new_metadata = metadata_mut(new);
        for field in ["creationTimestamp", "resourceVersion"] {
            copy(field, new_metadata, &old_metadata);
        }
        if new_metadata.get("uid").and_then(Value::as_str).is_none_or(str::is_empty) {
            copy("uid", new_metadata, &old_metadata);
        }
        // Nothing that is to go can be kept by a change of these.
        if old_metadata.contains_key("deletionTimestamp") {
            copy("deletionTimestamp", new_metadata, &old_metadata);
        }
        if let Some(grace) = old_metadata.get("deletionGracePeriodSeconds") {
            new_metadata.entry("deletionGracePeriodSeconds").or_insert_with(|| grace.clone());
        }
        let may_move = matches!(part, WriteTarget::Main | WriteTarget::EphemeralContainers);
        if may_move && moves_generation(self.resource.behaviour.generation(), new, old) {
            let generation = old_metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
            metadata_mut(new).insert("generation".to_owned(), (generation + 1).into());
        }
    }
}

fn copy(field: &str, to: &mut Map<String, Value>, from: &Map<String, Value>) {
    match from.get(field) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}

fn moves_generation(generation: Generation, new: &Value, old: &Value) -> bool {
    let differs = |field: &str| {
        let value = |object: &Value| metadata(object).and_then(|metadata| metadata.get(field)).cloned();
        value(new) != value(old)
    };
    match generation {
        Generation::None | Generation::Fixed => false,
        Generation::Spec | Generation::Unstarted => spec_differs(new, old),
        Generation::AllButMetadata => spec_differs(new, old) || new.get("status") != old.get("status"),
        Generation::SpecAndAnnotations => spec_differs(new, old) || differs("annotations"),
        Generation::SpecAndLabels => spec_differs(new, old) || differs("labels"),
    }
}

/// Whether anything differs but metadata and status.
fn spec_differs(new: &Value, old: &Value) -> bool {
    let rest = |object: &Value| {
        let fields = object.as_object().cloned().unwrap_or_default();
        fields
            .into_iter()
            .filter(|(name, _)| !matches!(name.as_str(), "metadata" | "status" | "apiVersion" | "kind"))
            .collect::<Map<_, _>>()
    };
    rest(new) != rest(old)
}

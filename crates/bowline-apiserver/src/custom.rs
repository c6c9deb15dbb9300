//! Custom resources: kinds that clients define. Consequences of a write of a definition, and of a write of its
//! objects.

mod behaviour;
mod definition;
mod lifecycle;

use crate::resource::Resource;
use crate::server::Inner;
use crate::write::Outcome;

pub(crate) use definition::{CLEANUP_FINALIZER, prepare_create, prepare_delete, prepare_update, warnings};

/// Applies the consequences of a write: serves a changed definition, and deletes the objects of a definition that is
/// being deleted.
pub(crate) fn committed(inner: &Inner, resource: &Resource, outcome: &Outcome) {
    if !outcome.is_commit() {
        return;
    }
    if definition::is_definition(&resource.gvk) {
        lifecycle::definition_changed(inner, outcome.name());
    } else if resource.behaviour.items_have_kind() {
        match outcome {
            Outcome::Deleted { .. } => lifecycle::object_deleted(inner, resource),
            Outcome::Stored { created: true, .. } => lifecycle::object_created(inner, resource),
            _ => {}
        }
    }
}

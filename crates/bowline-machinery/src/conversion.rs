//! Built-in kinds with more than one form: an autoscaler in two versions, an event in two groups. One form is stored;
//! conversion to the other and back loses nothing.

mod autoscaler;
mod event;

use serde_json::Value;

pub(crate) use event::to_core as to_core_event;

/// The stored form of a kind, if the given form is another one.
#[must_use]
pub fn stored_form(group: &str, version: &str, kind: &str) -> Option<StorageConversion> {
    match (group, version, kind) {
        ("autoscaling", "v1", "HorizontalPodAutoscaler") => Some(StorageConversion {
            group: "autoscaling",
            version: "v2",
            to: autoscaler::to_v2,
            from: autoscaler::to_v1,
        }),
        ("events.k8s.io", "v1", "Event") => {
            Some(StorageConversion { group: "", version: "v1", to: event::to_core, from: event::from_core })
        }
        _ => None,
    }
}

/// A form of a kind that is not stored, and its conversions. Objects must be normalised afterwards, since some zero
/// values that Go writes are missing.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StorageConversion {
    /// The group of the stored form.
    pub group: &'static str,
    /// The version of the stored form.
    pub version: &'static str,
    /// Converts to the stored form.
    pub to: fn(Value) -> Value,
    /// Converts from the stored form.
    pub from: fn(Value) -> Value,
}

//! Built-in kinds that have more than one form: an autoscaler in two versions, an event in two groups. One form is
//! stored; the other is made of it, and back, without losing anything.

mod autoscaler;
mod event;

use serde_json::Value;

pub(crate) use event::to_core as to_core_event;

/// The form that is stored of a kind with more than one, if this is another.
#[must_use]
pub fn stored_form(group: &str, version: &str, kind: &str) -> Option<StoredForm> {
    match (group, version, kind) {
        ("autoscaling", "v1", "HorizontalPodAutoscaler") => Some(StoredForm {
            group: "autoscaling",
            version: "v2",
            to: autoscaler::to_v2,
            from: autoscaler::to_v1,
        }),
        ("events.k8s.io", "v1", "Event") => {
            Some(StoredForm { group: "", version: "v1", to: event::to_core, from: event::from_core })
        }
        _ => None,
    }
}

/// Another form of a kind, and the ways there and back. Zero values that Go would write are not all there afterwards:
/// objects are to be normalised.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StoredForm {
    /// The group of the stored form.
    pub group: &'static str,
    /// Its version.
    pub version: &'static str,
    /// To the stored form.
    pub to: fn(Value) -> Value,
    /// From the stored form.
    pub from: fn(Value) -> Value,
}

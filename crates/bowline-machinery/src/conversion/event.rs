//! Events of the core group and of `events.k8s.io`: the same fields under other names.

use serde_json::Value;

/// The name in `events.k8s.io`, and that in the core group.
const NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

pub(super) fn to_core(event: Value) -> Value {
    renamed(event, |name| NAMES.iter().find(|(new, _)| *new == name).map(|(_, core)| *core))
}

pub(super) fn from_core(event: Value) -> Value {
    renamed(event, |name| NAMES.iter().find(|(_, core)| *core == name).map(|(new, _)| *new))
}

fn renamed(event: Value, other: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(fields) = event else { return event };
    let renamed = fields.into_iter().map(|(name, value)| match other(&name) {
        Some(other) => (other.to_owned(), value),
        None => (name, value),
    });
    Value::Object(renamed.collect())
}

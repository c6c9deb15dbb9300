//! Events, which two groups show under different names. They are kept as the core group has them.

use bowline_machinery::facts::{self, UnknownFields};
use serde_json::Value;

use crate::object::into_map;

/// The names of the core group, and those of `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// From the newer group.
pub(super) fn to_core(event: Value) -> Value {
    renamed(event, "", NAMES.map(|(core, new)| (new, core)))
}

/// To the newer group.
pub(super) fn from_core(event: Value) -> Value {
    renamed(event, "events.k8s.io", NAMES)
}

/// With other names, and written as Go writes the type of the other group: both leave out other zeros.
fn renamed(mut event: Value, group: &str, names: [(&str, &str); 7]) -> Value {
    let fields = into_map(&mut event);
    for (from, to) in names {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
    let normalised = facts::type_of(group, "v1", "Event")
        .and_then(|to| to.normalise(event.clone(), UnknownFields::Report).ok())
        .map(|normalised| normalised.value);
    normalised.unwrap_or(event)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_goes_to_the_core_group_and_back() {
        let event = json!({
            "metadata": {"name": "a"}, "eventTime": "2020-01-01T00:00:00.000000Z", "regarding": {"kind": "Pod"},
            "note": "n", "reportingController": "me", "reportingInstance": "me-1", "reason": "r", "action": "a",
            "type": "Normal", "deprecatedSource": {"component": "c"}, "deprecatedCount": 2,
            "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
        });
        let core = to_core(event.clone());
        assert_eq!((&core["involvedObject"]["kind"], &core["message"]), (&json!("Pod"), &json!("n")));
        assert_eq!((&core["reportingComponent"], &core["count"]), (&json!("me"), &json!(2)));
        assert_eq!(from_core(core), event);
    }
}

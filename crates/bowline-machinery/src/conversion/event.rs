//! Events of the core group and of `events.k8s.io`: the same fields with other names.

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

pub(crate) fn to_core(event: Value) -> Value {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_survives_the_round_trip_to_the_core_group() {
        let event = json!({
            "metadata": {"name": "a"}, "eventTime": "2020-01-01T00:00:00.000000Z", "regarding": {"kind": "Pod"},
            "note": "n", "reportingController": "me", "reportingInstance": "me-1", "reason": "r", "action": "a",
            "type": "Normal", "deprecatedSource": {"component": "c"}, "deprecatedCount": 2,
        });
        let core = to_core(event.clone());
        assert_eq!((&core["involvedObject"]["kind"], &core["message"]), (&json!("Pod"), &json!("n")));
        assert_eq!((&core["reportingComponent"], &core["count"]), (&json!("me"), &json!(2)));
        assert_eq!(from_core(core), event);
    }
}

//! Rules for writing pods: fields that may change, and grace periods of deletion. Validation of the content is elsewhere.

use bowline_machinery::pod_qos_class;
use serde_json::{Value, json};

use crate::object::{child_mut, into_map, meta_str};
use crate::resource::WriteTarget;

/// Default grace period of a pod, in seconds.
const GRACE: i64 = 30;

/// A new pod waits for a node.
pub(super) fn prepare_create(pod: &mut Value) {
    let mut status = json!({"phase": "Pending", "qosClass": pod_qos_class(pod)});
    let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": meta_str(pod, "creationTimestamp"),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    into_map(pod).insert("status".to_owned(), status);
}

/// Keeps status fields that the server set, also when a node's update omits them.
pub(super) fn prepare_update(part: WriteTarget, new: &mut Value, old: &Value) {
    if part != WriteTarget::Status {
        return;
    }
    let status = child_mut(new, "status");
    for field in ["qosClass", "observedGeneration"] {
        let known = status.get(field).is_some_and(|value| !value.is_null() && value != "" && value != 0);
        if let Some(before) = old.pointer(&format!("/status/{field}")).filter(|_| !known) {
            status.insert(field.to_owned(), before.clone());
        }
    }
}

/// A pod that runs nowhere has nothing to stop.
pub(super) fn grace_period(pod: &Value, asked: Option<i64>) -> i64 {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if text("/spec/nodeName").is_empty() || matches!(text("/status/phase"), "Succeeded" | "Failed") {
        return 0;
    }
    let own = pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    let period = asked.or(own).unwrap_or(GRACE);
    if period < 0 { 1 } else { period }
}

//! Autoscalers.

use serde_json::json;

use super::fill::{Object, absent, child, empty, made};

pub(super) fn v1(autoscaler: &mut Object) {
    // An annotation holds the metrics that this version lacks.
    let noted = autoscaler
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations")?.get("autoscaling.alpha.kubernetes.io/metrics"))
        .is_some();
    let spec = made(autoscaler, "spec");
    absent(spec, "minReplicas", 1);
    if !noted {
        absent(spec, "targetCPUUtilizationPercentage", 80);
    }
}

pub(super) fn v2(autoscaler: &mut Object) {
    let spec = made(autoscaler, "spec");
    absent(spec, "minReplicas", 1);
    let cpu = json!([{
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }]);
    empty(spec, "metrics", cpu);
    if let Some(behavior) = child(spec, "behavior") {
        let up = made(behavior, "scaleUp");
        absent(up, "stabilizationWindowSeconds", 0);
        absent(up, "selectPolicy", "Max");
        let policies = json!([
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ]);
        empty(up, "policies", policies);
        let down = made(behavior, "scaleDown");
        absent(down, "selectPolicy", "Max");
        empty(down, "policies", json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
    }
}

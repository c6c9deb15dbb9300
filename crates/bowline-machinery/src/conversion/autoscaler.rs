//! Autoscalers: version 1 has one metric, CPU utilization. All other metrics and newer fields are texts in annotations
//! there.

use serde_json::{Map, Value, json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const ALL: [&str; 4] = [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR];

/// The default CPU utilization, in percent.
const DEFAULT_UTILIZATION: i64 = 80;

const TARGET: &str = "targetCPUUtilizationPercentage";
const CURRENT: &str = "currentCPUUtilizationPercentage";

/// The fields of metrics in version 1, in Go's order: their path in version 2, and whether they are always written.
type Fields = [(&'static str, &'static str, bool)];

const OBJECT: &Fields = &[
    ("target", "/describedObject", true),
    ("metricName", "/metric/name", true),
    ("targetValue", "/target/value", true),
    ("selector", "/metric/selector", false),
    ("averageValue", "/target/averageValue", false),
];
const PODS: &Fields = &[
    ("metricName", "/metric/name", true),
    ("targetAverageValue", "/target/averageValue", true),
    ("selector", "/metric/selector", false),
];
const RESOURCE: &Fields = &[
    ("name", "/name", true),
    ("targetAverageUtilization", "/target/averageUtilization", false),
    ("targetAverageValue", "/target/averageValue", false),
];
const CONTAINER: &Fields = &[
    ("name", "/name", true),
    ("targetAverageUtilization", "/target/averageUtilization", false),
    ("targetAverageValue", "/target/averageValue", false),
    ("container", "/container", true),
];
const EXTERNAL: &Fields = &[
    ("metricName", "/metric/name", true),
    ("metricSelector", "/metric/selector", false),
    ("targetValue", "/target/value", false),
    ("targetAverageValue", "/target/averageValue", false),
];
const KINDS: [(&str, &Fields); 5] = [
    ("object", OBJECT),
    ("pods", PODS),
    ("resource", RESOURCE),
    ("containerResource", CONTAINER),
    ("external", EXTERNAL),
];
const CONDITION: &Fields = &[
    ("type", "/type", true),
    ("status", "/status", true),
    ("lastTransitionTime", "/lastTransitionTime", true),
    ("reason", "/reason", false),
    ("message", "/message", false),
];

/// From version 2 to version 1.
pub(super) fn to_v1(mut hpa: Value) -> Value {
    let mut notes = Vec::new();
    let spec = hpa["spec"].as_object_mut().map(std::mem::take).unwrap_or_default();
    let metrics = spec.get("metrics").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut kept: Map<String, Value> = ["scaleTargetRef", "minReplicas", "maxReplicas"]
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), spec.get(*field)?.clone())))
        .collect();
    if let Some(utilization) = metrics.iter().find_map(cpu) {
        kept.insert(TARGET.to_owned(), utilization);
    }
    let others: Vec<_> = metrics.iter().filter(|metric| cpu(metric).is_none()).map(metric_text).collect();
    if !others.is_empty() {
        notes.push((METRICS, format!("[{}]", others.join(","))));
    }
    if let Some(behavior) = spec.get("behavior").filter(|behavior| behavior.is_object()) {
        notes.push((BEHAVIOR, behavior_text(behavior)));
    }
    hpa["spec"] = Value::Object(kept);
    let status = hpa["status"].as_object_mut().map(std::mem::take).unwrap_or_default();
    hpa["status"] = Value::Object(status_to_v1(status, &mut notes));
    let metadata = &mut hpa["metadata"];
    drop_notes(metadata);
    for (name, text) in notes {
        if !metadata["annotations"].is_object() {
            metadata["annotations"] = json!({});
        }
        metadata["annotations"][name] = text.into();
    }
    hpa
}

fn status_to_v1(
    mut status: Map<String, Value>,
    notes: &mut Vec<(&'static str, String)>,
) -> Map<String, Value> {
    let list = |value: Option<Value>| match value {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    let current = list(status.remove("currentMetrics"));
    let is_cpu = |metric: &&Value| metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
    let utilization =
        current.iter().find(is_cpu).map(|metric| &metric["resource"]["current"]["averageUtilization"]);
    if let Some(utilization) = utilization.filter(|utilization| utilization.is_number()) {
        status.insert(CURRENT.to_owned(), utilization.clone());
    }
    if !current.is_empty() {
        notes.push((CURRENT_METRICS, Value::from(current).to_string()));
    }
    let conditions = list(status.remove("conditions"));
    if !conditions.is_empty() {
        let texts: Vec<_> = conditions.iter().map(|condition| fields_text(condition, CONDITION)).collect();
        notes.push((CONDITIONS, format!("[{}]", texts.join(","))));
    }
    status
}

/// From version 1 to version 2.
pub(super) fn to_v2(mut hpa: Value) -> Value {
    let note = |name: &str| -> Option<Value> {
        serde_json::from_str(hpa["metadata"]["annotations"][name].as_str()?).ok()
    };
    let list = |value: Option<Value>| match value {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    let mut metrics: Vec<_> = list(note(METRICS)).iter().map(metric_of).collect();
    let (behavior, conditions) = (note(BEHAVIOR), note(CONDITIONS));
    let mut current = note(CURRENT_METRICS);
    let spec = &mut hpa["spec"];
    let target = spec.as_object_mut().and_then(|spec| spec.remove(TARGET)).and_then(|target| target.as_i64());
    if target.is_some() || metrics.is_empty() {
        metrics.push(json!({
            "type": "Resource",
            "resource": {"name": "cpu", "target": {
                "type": "Utilization",
                "averageUtilization": target.unwrap_or(DEFAULT_UTILIZATION),
            }},
        }));
    }
    spec["metrics"] = metrics.into();
    if let Some(behavior) = behavior.filter(Value::is_object) {
        spec["behavior"] = lower_keys(behavior);
    }
    if !hpa["status"].is_object() {
        hpa["status"] = json!({});
    }
    let status = &mut hpa["status"];
    let used =
        status.as_object_mut().and_then(|status| status.remove(CURRENT)).and_then(|used| used.as_i64());
    if let Some(used) = used.filter(|_| current.is_none()) {
        current = Some(json!([{
            "type": "Resource",
            "resource": {"name": "cpu", "current": {"averageUtilization": used}},
        }]));
    }
    if let Some(current) = current {
        status["currentMetrics"] = current;
    }
    if let Some(conditions) = conditions {
        status["conditions"] = conditions;
    }
    drop_notes(&mut hpa["metadata"]);
    hpa
}

fn drop_notes(metadata: &mut Value) {
    let Some(annotations) = metadata["annotations"].as_object_mut() else {
        // Indexing creates a missing field; it is removed again.
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.remove("annotations");
        }
        return;
    };
    annotations.retain(|name, _| !ALL.contains(&name.as_str()));
    if annotations.is_empty()
        && let Some(metadata) = metadata.as_object_mut()
    {
        metadata.remove("annotations");
    }
}

/// The target CPU utilization, if the metric has one.
fn cpu(metric: &Value) -> Option<Value> {
    let is_cpu = metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
    let utilization = &metric["resource"]["target"]["averageUtilization"];
    (is_cpu && utilization.is_number()).then(|| utilization.clone())
}

/// A metric in the form of version 1.
fn metric_text(metric: &Value) -> String {
    let mut text = format!(r#"{{"type":{}"#, metric["type"]);
    for (kind, fields) in KINDS {
        if metric[kind].is_object() {
            let fields = fields_text(&metric[kind], fields);
            text.extend([",\"", kind, "\":", &fields]);
        }
    }
    text.push('}');
    text
}

fn fields_text(object: &Value, fields: &Fields) -> String {
    let written = fields.iter().filter_map(|(name, pointer, always)| {
        let value = object.pointer(pointer).filter(|value| !value.is_null());
        match value {
            Some(value) => Some(format!(r#""{name}":{}"#, reference_text(name, value))),
            None => always
                .then(|| format!(r#""{name}":{}"#, if name.ends_with("Value") { "\"0\"" } else { "null" })),
        }
    });
    format!("{{{}}}", written.collect::<Vec<_>>().join(","))
}

/// A reference to an object, with its own order of fields.
fn reference_text(name: &str, value: &Value) -> String {
    if name != "target" {
        return value.to_string();
    }
    let fields = [("kind", "/kind", true), ("name", "/name", true), ("apiVersion", "/apiVersion", false)];
    fields_text(value, &fields)
}

/// A metric in the form of version 2.
fn metric_of(metric: &Value) -> Value {
    let mut made = json!({"type": metric["type"]});
    for (kind, fields) in KINDS {
        if !metric[kind].is_object() {
            continue;
        }
        let mut source = json!({});
        for (name, pointer, _) in fields {
            let value = metric[kind].get(name).filter(|value| !value.is_null());
            if let Some(value) = value {
                let parts: Vec<_> = pointer.trim_start_matches('/').split('/').collect();
                match parts.as_slice() {
                    [one] => source[*one] = value.clone(),
                    [one, two] => source[*one][*two] = value.clone(),
                    _ => {}
                }
            }
        }
        let target = source["target"].clone();
        let kind_of_target = if target["averageUtilization"].is_number() {
            "Utilization"
        } else if target["averageValue"].is_string() {
            "AverageValue"
        } else {
            "Value"
        };
        source["target"]["type"] = kind_of_target.into();
        made[kind] = source;
    }
    made
}

/// Behavior is written with the names of Go's fields, all of them.
fn behavior_text(behavior: &Value) -> String {
    let rules = |rules: &Value| -> String {
        if !rules.is_object() {
            return "null".to_owned();
        }
        let policies = match rules["policies"].as_array() {
            None => "null".to_owned(),
            Some(policies) => {
                let policies = policies.iter().map(|policy| {
                    format!(
                        r#"{{"Type":{},"Value":{},"PeriodSeconds":{}}}"#,
                        policy["type"], policy["value"], policy["periodSeconds"]
                    )
                });
                format!("[{}]", policies.collect::<Vec<_>>().join(","))
            }
        };
        format!(
            r#"{{"StabilizationWindowSeconds":{},"SelectPolicy":{},"Policies":{policies},"Tolerance":{}}}"#,
            rules["stabilizationWindowSeconds"], rules["selectPolicy"], rules["tolerance"]
        )
    };
    format!(r#"{{"ScaleUp":{},"ScaleDown":{}}}"#, rules(&behavior["scaleUp"]), rules(&behavior["scaleDown"]))
}

/// The reverse: names begin with a small letter, and nulls are absent.
fn lower_keys(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            let lowered = fields.map(|(name, value)| {
                let mut letters = name.chars();
                let first = letters.next().map(|first| first.to_ascii_lowercase());
                (first.into_iter().chain(letters).collect(), lower_keys(value))
            });
            Value::Object(lowered.collect())
        }
        Value::Array(items) => items.into_iter().map(lower_keys).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_unknown_to_version_1_survive_the_round_trip() {
        let hpa = json!({
            "metadata": {"name": "a"},
            "spec": {
                "maxReplicas": 3,
                "metrics": [
                    {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}}},
                    {"type": "Object", "object": {
                        "describedObject": {"kind": "K", "name": "n"},
                        "metric": {"name": "m"},
                        "target": {"type": "Value", "value": "1"},
                    }},
                ],
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 10}},
            },
            "status": {"conditions": [{"type": "A", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        assert_eq!(to_v2(to_v1(hpa.clone())), hpa);
    }
}

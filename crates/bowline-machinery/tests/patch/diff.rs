//! Computes patches from one value to another. Correct, not minimal.

use serde_json::{Map, Value, json};

/// A JSON patch from one object to another.
pub(crate) fn json_patch(from: &Value, to: &Value) -> Value {
    let mut operations = Vec::new();
    walk("", from, to, &mut operations);
    Value::Array(operations)
}

fn walk(path: &str, from: &Value, to: &Value, operations: &mut Vec<Value>) {
    match (from, to) {
        _ if from == to => {}
        (Value::Object(from), Value::Object(to)) => {
            let below = |name: &str| format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
            for name in from.keys().filter(|name| !to.contains_key(*name)) {
                operations.push(json!({"op": "remove", "path": below(name)}));
            }
            for (name, to) in to {
                match from.get(name) {
                    Some(from) => walk(&below(name), from, to, operations),
                    None => operations.push(json!({"op": "add", "path": below(name), "value": to})),
                }
            }
        }
        (Value::Array(from), Value::Array(to)) => {
            let common = from.len().min(to.len());
            for (index, (from, to)) in from.iter().zip(to).enumerate() {
                walk(&format!("{path}/{index}"), from, to, operations);
            }
            for _ in common..from.len() {
                operations.push(json!({"op": "remove", "path": format!("{path}/{common}")}));
            }
            for item in &to[common..] {
                operations.push(json!({"op": "add", "path": format!("{path}/-"), "value": item}));
            }
        }
        _ => operations.push(json!({"op": "replace", "path": path, "value": to})),
    }
}

/// A merge patch from one object to another, which must not contain null.
pub(crate) fn merge_patch(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return to.clone() };
    let mut patch = Map::new();
    for name in from.keys().filter(|name| !to.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, to) in to.iter().filter(|(name, to)| from.get(*name) != Some(to)) {
        patch.insert(name.clone(), from.get(name).map_or_else(|| to.clone(), |from| merge_patch(from, to)));
    }
    Value::Object(patch)
}

//! The nesting depth of values, measured without recursion, before recursive code handles them.

use serde_json::Value;

/// Whether objects and lists are nested at most this many levels deep. A scalar has depth zero.
pub(crate) fn is_nested_within(value: &Value, levels: usize) -> bool {
    let is_container = |value: &&Value| value.is_object() || value.is_array();
    let mut level: Vec<&Value> = Some(value).into_iter().filter(is_container).collect();
    let mut deep = 0;
    while !level.is_empty() {
        deep += 1;
        if deep > levels {
            return false;
        }
        let mut below = Vec::new();
        for value in level {
            match value {
                Value::Object(fields) => below.extend(fields.values().filter(is_container)),
                Value::Array(items) => below.extend(items.iter().filter(is_container)),
                _ => {}
            }
        }
        level = below;
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_and_lists_count_as_levels() {
        let rows =
            [(json!(1), 0), (json!([]), 1), (json!({"a": 1, "b": [{}]}), 3), (json!([1, {"a": []}, []]), 3)];
        for (value, levels) in rows {
            assert!(is_nested_within(&value, levels), "{value}");
            assert!(levels == 0 || !is_nested_within(&value, levels - 1), "{value}");
        }
    }
}

//! How deep values are nested, measured without recursion: it is asked of values before anything walks them.

use serde_json::Value;

/// Whether objects and lists are nested at most this many levels deep. A scalar has none.
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
    fn levels_are_those_of_objects_and_lists() {
        let rows =
            [(json!(1), 0), (json!([]), 1), (json!({"a": 1, "b": [{}]}), 3), (json!([1, {"a": []}, []]), 3)];
        for (value, levels) in rows {
            assert!(is_nested_within(&value, levels), "{value}");
            assert!(levels == 0 || !is_nested_within(&value, levels - 1), "{value}");
        }
    }
}

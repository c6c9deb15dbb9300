//! Patches made from two objects, and patches that fail.

mod diff;

use bowline_machinery::{JsonPatch, MergePatch, parse_json};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Objects with few names, so that two of them share some.
fn object(nulls: bool) -> impl Strategy<Value = Value> {
    let null = if nulls { Just(Value::Null).boxed() } else { Just(json!(true)).boxed() };
    let leaf = prop_oneof![
        null,
        any::<bool>().prop_map(Value::from),
        (-2..3_i64).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map("[abc/~é]{0,2}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    });
    btree_map("[abc/~é]{0,2}", value, 0..5).prop_map(|map| json!(map))
}

/// An operation that may or may not apply.
fn operation() -> impl Strategy<Value = Value> {
    let path = || "(/[abc/0-]{0,2}){0,3}";
    let kind = prop_oneof!["add", "remove", "replace", "move", "copy", "test"];
    (kind, path(), path(), -1..2_i64)
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
}

/// An operation on deep values: it adds one far down, or moves one in nested lists.
fn digging() -> impl Strategy<Value = Value> {
    let path = || (0..140_usize).prop_map(|steps| format!("/a{}", "/0".repeat(steps)));
    let kind = prop_oneof!["add", "replace", "move", "copy", "copy"];
    (kind, path(), path(), 0..130_usize).prop_map(|(op, path, from, levels)| {
        let value = (0..levels).fold(json!(0), |inner, _| json!([inner]));
        json!({"op": op, "path": path, "from": from, "value": value})
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_json_patch_from_one_object_to_another_leads_there(from in object(true), to in object(true)) {
        let patch = JsonPatch::from_value(diff::json_patch(&from, &to)).unwrap();
        prop_assert_eq!(patch.apply(&from), Ok(to));
    }

    #[test]
    fn a_merge_patch_from_one_object_to_another_leads_there(from in object(true), to in object(false)) {
        let patch = MergePatch::from_value(diff::merge_patch(&from, &to)).unwrap();
        prop_assert_eq!(patch.apply(&from), to);
    }

    #[test]
    fn what_a_patch_leaves_can_be_read_again(levels in 0..120_usize, operations in vec(digging(), 0..8)) {
        let mut object = json!({"a": (0..levels).fold(json!([]), |inner, _| json!([inner]))});
        for operation in operations {
            let patch = JsonPatch::from_value(json!([operation])).unwrap();
            object = patch.apply(&object).unwrap_or(object);
            prop_assert!(parse_json(object.to_string().as_bytes()).is_ok());
        }
    }

    #[test]
    fn a_patch_that_fails_changes_nothing(object in object(true), operations in vec(operation(), 0..5)) {
        let before = object.clone();
        let failing = json!({"op": "test", "path": "", "value": "an object is no text"});
        let operations = operations.into_iter().chain([failing]).collect();
        let patch = JsonPatch::from_value(Value::Array(operations)).unwrap();
        prop_assert!(patch.apply(&object).is_err());
        prop_assert_eq!(object, before);
    }
}

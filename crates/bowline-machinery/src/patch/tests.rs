//! Results and errors of patches; rows are taken from `evanphx/json-patch` v4.13.0.

use serde_json::json;

use super::*;

/// An object after a patch of one operation.
fn one(operation: &Value) -> Result<Value, String> {
    let object = json!({"a": {"b": 1}, "l": [1, 2, 3], "n": null, "x/y": {"m~n": 0}});
    JsonPatch::from_value(json!([operation])).unwrap().apply(&object).map_err(|error| error.to_string())
}

#[test]
fn operations_do_what_rfc_6902_says() {
    let rows = [
        (json!({"op": "add", "path": "/a/c", "value": 2}), "/a", json!({"b": 1, "c": 2})),
        (json!({"op": "add", "path": "/l/1", "value": 9}), "/l", json!([1, 9, 2, 3])),
        (json!({"op": "add", "path": "/l/3", "value": 9}), "/l", json!([1, 2, 3, 9])),
        (json!({"op": "add", "path": "/l/-", "value": 9}), "/l", json!([1, 2, 3, 9])),
        (json!({"op": "remove", "path": "/l/0"}), "/l", json!([2, 3])),
        (json!({"op": "remove", "path": "/n"}), "/l", json!([1, 2, 3])),
        (json!({"op": "replace", "path": "/l/2", "value": {}}), "/l", json!([1, 2, {}])),
        (json!({"op": "move", "from": "/a/b", "path": "/l/0"}), "/l", json!([1, 1, 2, 3])),
        (json!({"op": "copy", "from": "/a", "path": "/l/-"}), "/l", json!([1, 2, 3, {"b": 1}])),
        (json!({"op": "test", "path": "/a", "value": {"b": 1}}), "/l", json!([1, 2, 3])),
        (json!({"op": "test", "path": "/nothing"}), "/l", json!([1, 2, 3])),
        (json!({"op": "replace", "path": "/x~1y/m~0n", "value": 1}), "/x~1y", json!({"m~n": 1})),
        (json!({"op": "replace", "path": "", "value": {"all": "new"}}), "", json!({"all": "new"})),
    ];
    for (operation, place, expected) in rows {
        let result = one(&operation).unwrap();
        assert_eq!(result.pointer(place), Some(&expected), "{operation}");
    }
}

#[test]
fn operations_deviate_from_rfc_6902_as_in_kube_apiserver() {
    let rows = [
        (json!({"op": "remove", "path": "/l/-1"}), "/l", json!([1, 2])),
        (json!({"op": "add", "path": "/l/-1", "value": 9}), "/l", json!([1, 2, 3, 9])),
        (json!({"op": "replace", "path": "/a/new", "value": 1}), "/a", json!({"b": 1, "new": 1})),
        (json!({"op": "copy", "from": "/a/none", "path": "/a/c"}), "/a", json!({"b": 1, "c": null})),
        (json!({"op": "add", "path": "/a/c"}), "/a", json!({"b": 1, "c": null})),
        (json!({"op": "add", "path": "ignored/c", "value": 1}), "/c", json!(1)),
    ];
    for (operation, place, expected) in rows {
        let result = one(&operation).unwrap();
        assert_eq!(result.pointer(place), Some(&expected), "{operation}");
    }
}

#[test]
fn a_failed_operation_reports_the_reason() {
    let rows = [
        (
            json!({"op": "add", "path": "/z/y", "value": 1}),
            "add operation does not apply: doc is missing path: \"/z/y\": missing value",
        ),
        (
            json!({"op": "remove", "path": "/a/z"}),
            "error in remove for path: '/a/z': Unable to remove nonexistent key: z: missing value",
        ),
        (
            json!({"op": "add", "path": "/l/5", "value": 1}),
            "error in add for path: '/l/5': Unable to access invalid index: 5: invalid index referenced",
        ),
        (
            json!({"op": "add", "path": "/l/x", "value": 1}),
            "error in add for path: '/l/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": \
             invalid syntax",
        ),
        (json!({"op": "test", "path": "/a/b", "value": 2}), "testing value /a/b failed: test failed"),
        (json!({"op": "what"}), "Unexpected kind: what"),
        (json!({"path": "/a"}), "Unexpected kind: unknown"),
        (
            json!({"op": "move", "from": "/a", "path": "/a/b"}),
            "move operation does not apply: doc is missing destination path: /a/b: missing value",
        ),
    ];
    for (operation, expected) in rows {
        assert_eq!(one(&operation).unwrap_err(), expected);
    }
}

#[test]
fn statuses_are_those_of_kube_apiserver() {
    let status = JsonPatch::parse_strict(b"{}").unwrap_err().status();
    assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"));
    assert_eq!(
        status.message,
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
    );

    let long = Value::Array(vec![json!({"op": "test", "path": "/a"}); 10_001]);
    let status = JsonPatch::from_value(long).unwrap_err().status();
    assert_eq!((status.code, status.reason.as_str()), (413, "RequestEntityTooLarge"));
    assert_eq!(
        status.message,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );

    let patch = JsonPatch::parse(br#"[{"op":"test","path":"/a","value":1}]"#).unwrap();
    let status = patch.apply(&json!({})).unwrap_err().status();
    let answer = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "the server rejected our request due to an error in our request", "reason": "Invalid",
        "details": {}, "code": 422});
    assert_eq!(serde_json::to_value(status).unwrap(), answer);

    let status = MergePatch::parse(b"[").unwrap_err().status();
    assert_eq!((status.code, status.message.as_str()), (400, "Invalid JSON Patch"));
}

#[test]
fn strict_decoding_reports_unknown_and_duplicate_fields() {
    let text = br#"[{"op":"add","path":"/a","value":{"b":1,"b":2},"extra":1}]"#;
    let (patch, warnings) = JsonPatch::parse_strict(text).unwrap();
    assert_eq!(
        warnings,
        [r#"json patch duplicate field "[0].value.b""#, r#"json patch unknown field "[0].extra""#]
    );
    assert_eq!(patch, JsonPatch::parse(text).unwrap());
    let error = JsonPatch::parse_strict(br#"[{"op":"add","path":1}]"#).unwrap_err().to_string();
    assert_eq!(
        error,
        "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string"
    );
    assert!(JsonPatch::parse(br#"[{"op":"add","path":1}]"#).is_ok());
    let (_, warnings) = MergePatch::parse_strict(br#"{"a":1,"a":2}"#).unwrap();
    assert_eq!(warnings, [r#"duplicate field "a""#]);
}

#[test]
fn copies_are_bounded_together() {
    let patch =
        json!([{"op": "copy", "from": "/a", "path": "/b"}, {"op": "copy", "from": "/a", "path": "/c"}]);
    let patch = JsonPatch::from_value(patch).unwrap();
    let object = json!({"a": "12345678"});
    assert!(patch.apply_within(&object, 20).is_ok());
    assert_eq!(
        patch.apply_within(&object, 19).unwrap_err().to_string(),
        "Unable to complete the copy, the accumulated size increase of copy is 20, exceeding the limit 19"
    );
}

#[test]
fn a_merge_patch_sets_and_removes() {
    let rows = [
        (json!({"a": 1}), json!({"a": null, "b": {"c": null, "d": 1}}), json!({"b": {"d": 1}})),
        (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": null}}), json!({"a": {"c": 2}})),
        (json!({"a": [1]}), json!({"a": [{"b": null}, null]}), json!({"a": [{}, null]})),
        (json!({"a": {}}), json!({"a": [{"b": null}]}), json!({"a": [{"b": null}]})),
        (json!({"a": 1}), json!({"a": {"b": null}}), json!({"a": {}})),
        (json!({"a": 1}), json!([{"b": null}]), json!([{}])),
    ];
    for (object, patch, expected) in rows {
        assert_eq!(MergePatch::from_value(patch.clone()).unwrap().apply(&object), expected, "{patch}");
    }
}

/// A list in a list in a list.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(0), |inner, _| json!([inner]))
}

fn patched(object: &Value, operations: Value) -> Result<Value, PatchError> {
    JsonPatch::from_value(operations).unwrap().apply(object)
}

#[test]
fn no_operation_exceeds_the_maximum_depth() {
    let object = json!({"a": nested(99), "b": [[]]});
    let below = |levels| format!("/b/0{}", "/0".repeat(levels));
    let rows = [
        (json!({"op": "add", "path": below(1), "value": nested(123)}), true),
        (json!({"op": "add", "path": below(1), "value": nested(124)}), false),
        (json!({"op": "replace", "path": "/b/0", "value": nested(124)}), true),
        (json!({"op": "replace", "path": "/b/0", "value": nested(125)}), false),
        (json!({"op": "replace", "path": "", "value": nested(126)}), true),
        (json!({"op": "replace", "path": "", "value": nested(127)}), false),
    ];
    for (operation, is_done) in rows {
        match patched(&object, json!([operation])) {
            Ok(result) => {
                assert!(is_done);
                assert_eq!(crate::parse_json(result.to_string().as_bytes()).unwrap().value, result);
            }
            Err(error) => {
                assert!(!is_done);
                assert_eq!(error, PatchError::TooDeep { operation: 0 });
            }
        }
    }
    for op in ["copy", "move"] {
        for (levels, is_done) in [(26, true), (27, false)] {
            let operations = json!([
                {"op": "add", "path": "/c", "value": nested(levels)},
                {"op": op, "from": "/a", "path": format!("/c{}", "/0".repeat(levels))},
            ]);
            assert_eq!(patched(&object, operations).is_ok(), is_done, "{op} {levels}");
        }
    }
}

#[test]
fn copies_into_their_own_deepest_place_end_with_an_error() {
    let (mut operations, mut levels) = (Vec::new(), 99);
    for _ in 0..10 {
        let path = format!("/a{}", "/0".repeat(levels));
        operations.push(json!({"op": "copy", "from": "/a", "path": path}));
        levels *= 2;
    }
    let error = patched(&json!({"a": nested(99)}), operations.into()).unwrap_err();
    assert_eq!(error, PatchError::TooDeep { operation: 0 });
    let status = error.status();
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    assert_eq!(
        status.message,
        "operation 0 of the patch would nest objects and lists more than 126 levels deep"
    );
}

#[test]
fn a_merge_patch_stays_within_the_maximum_depth() {
    let object = json!({"a": 1});
    let patch = MergePatch::from_value(json!({"a": nested(125)})).unwrap();
    assert!(crate::parse_json(patch.apply(&object).to_string().as_bytes()).is_ok());
    let error = MergePatch::from_value(json!({"a": nested(126)})).unwrap_err();
    assert_eq!(error.to_string(), "a patch must not be nested more than 126 levels deep");
}

#[test]
fn the_work_of_a_json_patch_is_limited() {
    let list: Vec<Value> = vec![Value::Null; 700_000];
    let object = json!({"spec": {"list": list, "inner": {"deep": {}}}});
    // The values after the target are shifted, and a value that moves further down is measured.
    let shifts = json!({"op": "move", "from": "/spec/list/0", "path": "/spec/list/0"});
    let down = json!({"op": "move", "from": "/spec/list", "path": "/spec/inner/deep/list"});
    let up = json!({"op": "move", "from": "/spec/inner/deep/list", "path": "/spec/list"});
    let ordinary = [&[shifts.clone()][..], &[down.clone(), up.clone()][..]];
    for operations in ordinary {
        let patch = JsonPatch::from_value(json!(operations)).expect("it is a patch");
        assert_eq!(patch.apply(&object).as_ref(), Ok(&object));
    }
    for (operations, count) in [(vec![shifts], 500), (vec![down, up], 250)] {
        let operations: Vec<_> = operations.iter().cycle().take(count * operations.len()).collect();
        let patch = JsonPatch::from_value(json!(operations)).expect("it is a patch");
        let error = patch.apply(&object).expect_err("it is too much");
        assert!(matches!(error, PatchError::TooMuchWork { operation: 50..=250 }), "{error:?}");
        assert_eq!(error.status().code, 413);
    }
}

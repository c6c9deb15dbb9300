//! JSON patches and merge patches.

use http::Method;
use serde_json::{Value, json};

use crate::Env;

async fn config_map(env: &Env) -> String {
    let path = env.core("configmaps");
    let sent = json!({"metadata": {"name": "a", "labels": {"l": "m"}}, "data": {"a": "1", "b": "2"}});
    env.post(&path, sent).await.expect(201);
    format!("{path}/a")
}

/// The message for a patch that leaves an unreadable object: the whole object, and the reason at the end.
fn is_refused(status: &Value, why: &str) {
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.starts_with(" \"\" is invalid: patch: Invalid value: \"{"), "{message}");
    assert!(message.ends_with(why), "{message}");
    assert_eq!(status["details"]["causes"][0]["field"], "patch");
}

#[tokio::test]
async fn a_merge_patch_sets_and_removes_fields() {
    let env = Env::new().await;
    let path = config_map(&env).await;
    let patch = json!({"data": {"a": null, "b": "3", "c": "4"}, "metadata": {"labels": null, "annotations": {"x": "y"}}});
    let patched = env.merge(&path, patch).await.expect(200);
    assert_eq!(patched["data"], json!({"b": "3", "c": "4"}));
    assert_eq!(patched["metadata"]["labels"], Value::Null);
    assert_eq!(patched["metadata"]["annotations"], json!({"x": "y"}));
}

#[tokio::test]
async fn a_merge_patch_is_an_object() {
    let env = Env::new().await;
    let path = config_map(&env).await;
    let patch = ("content-type", "application/merge-patch+json");
    for (body, why) in [
        ("[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("\"x\"", "json: cannot unmarshal string into Go value of type map[string]interface {}"),
        ("x", "invalid character 'x' looking for beginning of value"),
    ] {
        let answer = env.call(Method::PATCH, &path, &[patch], body).await;
        answer.expect_status(400, "BadRequest", &format!("error decoding patch: {why}"));
    }
}

#[tokio::test]
async fn a_json_patch_does_its_operations_in_order() {
    let env = Env::new().await;
    let path = config_map(&env).await;
    let patch = json!([
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "move", "from": "/data/a", "path": "/data/c"},
        {"op": "copy", "from": "/data/b", "path": "/data/d"},
        {"op": "replace", "path": "/data/b", "value": "5"},
        {"op": "add", "path": "/metadata/labels/with~1slash", "value": "x"},
        {"op": "remove", "path": "/metadata/labels/l"},
    ]);
    let patched = env.json_patch(&path, patch).await.expect(200);
    assert_eq!(patched["data"], json!({"b": "5", "c": "1", "d": "2"}));
    assert_eq!(patched["metadata"]["labels"], json!({"with/slash": "x"}));
}

#[tokio::test]
async fn a_json_patch_that_fails_changes_nothing() {
    let env = Env::new().await;
    let path = config_map(&env).await;
    let before = env.get(&path).await.expect(200);
    let change = json!({"op": "replace", "path": "/data/a", "value": "9"});
    for failing in [
        json!({"op": "test", "path": "/data/b", "value": "other"}),
        json!({"op": "remove", "path": "/data/none"}),
        json!({"op": "fly", "path": "/data/a"}),
        json!({"op": "add", "path": "/none/of/this", "value": 1}),
    ] {
        let message = "the server rejected our request due to an error in our request";
        let answer = env.json_patch(&path, json!([change, failing])).await;
        let status = answer.expect_status(422, "Invalid", message);
        assert_eq!(status["details"], json!({}));
    }
    assert_eq!(env.get(&path).await.expect(200), before);
}

#[tokio::test]
async fn a_json_patch_is_a_list() {
    let env = Env::new().await;
    let path = config_map(&env).await;
    let message =
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp";
    let answer = env.json_patch(&path, json!({"op": "remove", "path": "/data"})).await;
    answer.expect_status(400, "BadRequest", message);
}

#[tokio::test]
async fn a_json_patch_may_test_the_revision() {
    let env = Env::new().await;
    let path = config_map(&env).await;
    let revision = env.get(&path).await.expect(200)["metadata"]["resourceVersion"].clone();
    let patch = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": revision},
        {"op": "replace", "path": "/data/a", "value": "9"},
    ]);
    env.json_patch(&path, patch.clone()).await.expect(200);
    env.json_patch(&path, patch).await.expect(422);
}

#[tokio::test]
async fn a_patch_that_leaves_no_object_of_the_kind_is_invalid() {
    let env = Env::new().await;
    let path = config_map(&env).await;
    let why = "json: cannot unmarshal number into Go struct field ConfigMap.data of type string";
    is_refused(&env.merge(&path, json!({"data": {"a": 5}})).await.expect(422), why);
    let why = "json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string";
    let patch = json!([{"op": "replace", "path": "/data", "value": 5}]);
    is_refused(&env.json_patch(&path, patch).await.expect(422), why);
    let why = "converting (v1.Secret) to (core.ConfigMap): unknown conversion";
    is_refused(&env.merge(&path, json!({"kind": "Secret", "data": null})).await.expect(422), why);
}

#[tokio::test]
async fn unknown_and_repeated_fields_of_a_patch_are_told() {
    let env = Env::new().await;
    let path = config_map(&env).await;
    let merge = ("content-type", "application/merge-patch+json");
    let body = r#"{"foo":"bar","data":{"x":"1","x":"2"}}"#;
    let answer = env.call(Method::PATCH, &path, &[merge], body).await;
    assert_eq!(
        answer.warnings(),
        [r#"299 - "duplicate field \"data.x\"""#, r#"299 - "unknown field \"foo\"""#]
    );
    assert_eq!(answer.expect(200)["data"]["x"], "2");
    let strict = format!("{path}?fieldValidation=Strict");
    let status = env.call(Method::PATCH, &strict, &[merge], body).await.expect(422);
    is_refused(&status, "strict decoding error: duplicate field \"data.x\", unknown field \"foo\"");
    let patch = json!([{"op": "replace", "path": "/data/a", "value": "7", "foo": 1}]);
    let status = env.json_patch(&strict, patch.clone()).await.expect(422);
    is_refused(&status, "strict decoding error: json patch unknown field \"[0].foo\"");
    let ignoring = env.json_patch(&format!("{path}?fieldValidation=Ignore"), patch).await;
    assert_eq!(ignoring.warnings(), [""; 0]);
    ignoring.expect(200);
}

#[tokio::test]
async fn a_json_patch_has_at_most_ten_thousand_operations() {
    let env = Env::new().await;
    let path = config_map(&env).await;
    let test = json!({"op": "test", "path": "/data/a", "value": "1"});
    env.json_patch(&path, vec![test.clone(); 10_000].into()).await.expect(200);
    let message =
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    let answer = env.json_patch(&path, vec![test; 10_001].into()).await;
    answer.expect_status(413, "RequestEntityTooLarge", message);
}

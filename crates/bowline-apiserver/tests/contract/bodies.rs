//! Request bodies: the right kind, known fields.

use http::Method;
use serde_json::{Value, json};

use crate::Env;

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn a_field_of_the_wrong_type_is_a_bad_request() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    for (sent, why) in [
        (
            json!({"data": {"a": 1}}),
            "cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            json!({"metadata": {"labels": 5}}),
            "cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
        (
            json!({"immutable": "yes"}),
            "cannot unmarshal string into Go struct field ConfigMap.immutable of type bool",
        ),
    ] {
        let message = format!("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: {why}");
        env.post(&path, sent).await.expect_status(400, "BadRequest", &message);
    }
}

#[tokio::test]
async fn an_object_need_not_say_what_it_is() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    for (name, kind) in [
        ("a", json!({})),
        ("b", json!({"kind": "ConfigMap"})),
        ("c", json!({"apiVersion": "v1"})),
        ("d", json!({"kind": "ConfigMap", "apiVersion": "v1"})),
    ] {
        let mut sent = kind;
        sent["metadata"] = json!({"name": name});
        let made = env.post(&path, sent).await.expect(201);
        assert_eq!((&made["kind"], &made["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    }
}

#[tokio::test]
async fn an_object_of_another_kind_is_a_bad_request() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    for (kind, version, why) in [
        (
            "Secret",
            "v1",
            "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (
            "ConfigMap",
            "v2",
            "ConfigMap in version \"v2\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"v2\"",
        ),
        (
            "Foo",
            "v1",
            "Foo in version \"v1\" cannot be handled as a ConfigMap: no kind \"Foo\" is registered for version \"v1\"",
        ),
    ] {
        let sent = json!({"kind": kind, "apiVersion": version, "metadata": {"name": "a"}});
        let status = env.post(&path, sent).await.expect(400);
        let message = status["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(why), "{message}");
        assert_eq!(status["reason"], "BadRequest");
    }
    let path = env.group("autoscaling/v2", "horizontalpodautoscalers");
    let sent =
        json!({"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v1", "metadata": {"name": "a"}});
    let message = "the API version in the data (autoscaling/v1) does not match the expected API version (autoscaling/v2)";
    env.post(&path, sent).await.expect_status(400, "BadRequest", message);
}

#[tokio::test]
async fn the_name_in_the_body_is_that_of_the_path() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let path = format!("{path}/a");
    let message = "the name of the object (b) does not match the name on the URL (a)";
    let sent = json!({"metadata": {"name": "b"}});
    env.put(&path, sent.clone()).await.expect_status(400, "BadRequest", message);
    env.merge(&path, sent).await.expect_status(400, "BadRequest", message);
    let message = "the name of the object (a based on URL) was undeterminable: name must be provided";
    env.put(&path, json!({"metadata": {}})).await.expect_status(400, "BadRequest", message);
    env.merge(&path, json!({"metadata": null})).await.expect_status(400, "BadRequest", message);
}

#[tokio::test]
async fn the_namespace_in_the_body_is_that_of_the_path() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    let sent = json!({"metadata": {"name": "a", "namespace": "other"}});
    env.post(&path, sent.clone()).await.expect_status(400, "BadRequest", message);
    env.post(&path, json!({"metadata": {"name": "a", "namespace": env.namespace}})).await.expect(201);
    let path = format!("{path}/a");
    env.put(&path, sent.clone()).await.expect_status(400, "BadRequest", message);
    env.merge(&path, sent).await.expect_status(400, "BadRequest", message);
}

#[tokio::test]
async fn what_has_no_namespace_loses_the_one_it_is_sent_with() {
    let env = Env::new().await;
    let name = env.unique("role");
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let sent = json!({"metadata": {"name": name, "namespace": "any"}, "rules": []});
    let made = env.post(path, sent).await.expect(201);
    assert_eq!(made["metadata"]["namespace"], Value::Null);
    env.delete(&format!("{path}/{name}")).await.expect(200);
}

#[tokio::test]
async fn unknown_and_repeated_fields_are_dropped_with_a_warning() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let body = r#"{"metadata":{"name":"a","nme":"b"},"foo":1,"data":{"k":"1","k":"2"}}"#;
    let warnings = [
        r#"299 - "unknown field \"metadata.nme\"""#,
        r#"299 - "unknown field \"foo\"""#,
        r#"299 - "duplicate field \"data.k\"""#,
    ];
    let answer = env.call(Method::POST, &path, &[JSON], body).await;
    assert_eq!(answer.warnings(), warnings);
    let made = answer.expect(201);
    assert_eq!((&made["data"], &made["foo"]), (&json!({"k": "2"}), &Value::Null));
    let answer = env.call(Method::PUT, &format!("{path}/a?fieldValidation=Warn"), &[JSON], body).await;
    assert_eq!(answer.warnings(), warnings);
    let answer = env.call(Method::PUT, &format!("{path}/a?fieldValidation=Ignore"), &[JSON], body).await;
    assert_eq!(answer.warnings(), [""; 0]);
    answer.expect(200);
}

#[tokio::test]
async fn unknown_and_repeated_fields_are_refused_if_the_client_wants_so() {
    let env = Env::new().await;
    let path = format!("{}?fieldValidation=Strict", env.core("configmaps"));
    let body = r#"{"metadata":{"name":"a","nme":"b"},"foo":1,"data":{"k":"1","k":"2"}}"#;
    let message = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \
                   \"metadata.nme\", unknown field \"foo\", duplicate field \"data.k\"";
    env.call(Method::POST, &path, &[JSON], body).await.expect_status(400, "BadRequest", message);
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
}

#[tokio::test]
async fn options_that_make_no_sense_are_invalid() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let object = format!("{path}/a");
    let sent = json!({"metadata": {"name": "a"}});
    let wrong = |options: &str, why: &str| format!("{options}.meta.k8s.io \"\" is invalid: {why}");
    let why = "fieldValidation: Unsupported value: \"Loud\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"";
    let status = env.post(&format!("{path}?fieldValidation=Loud"), sent.clone()).await;
    let status = status.expect_status(422, "Invalid", &wrong("CreateOptions", why));
    assert_eq!(
        (&status["details"]["group"], &status["details"]["kind"]),
        (&json!("meta.k8s.io"), &json!("CreateOptions"))
    );
    let put = env.put(&format!("{object}?fieldValidation=Loud"), sent.clone()).await;
    put.expect_status(422, "Invalid", &wrong("UpdateOptions", why));
    let patch = env.merge(&format!("{object}?fieldValidation=Loud"), sent.clone()).await;
    patch.expect_status(422, "Invalid", &wrong("PatchOptions", why));
    let why = "fieldManager: Too long: may not be more than 128 bytes";
    let manager = "m".repeat(129);
    let post = env.post(&format!("{path}?fieldManager={manager}"), sent.clone()).await;
    post.expect_status(422, "Invalid", &wrong("CreateOptions", why));
    let why = "force: Forbidden: may not be specified for non-apply patch";
    let patch = env.merge(&format!("{object}?force=true"), sent).await;
    patch.expect_status(422, "Invalid", &wrong("PatchOptions", why));
}

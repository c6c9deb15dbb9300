//! Dry runs: everything but the write.

use serde_json::{Value, json};

use crate::Env;

#[tokio::test]
async fn a_dry_run_creates_nothing() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let dry = format!("{path}?dryRun=All");
    let made = env.post(&dry, json!({"metadata": {"name": "a"}})).await.expect(201);
    assert!(made["metadata"]["uid"].is_string() && made["metadata"]["creationTimestamp"].is_string());
    assert_eq!(made["metadata"]["resourceVersion"], Value::Null);
    env.get(&format!("{path}/a")).await.expect(404);
    let made = env.post(&dry, json!({"metadata": {"generateName": "b-"}})).await.expect(201);
    assert!(made["metadata"]["name"].as_str().is_some_and(|name| name.len() == 7));
}

#[tokio::test]
async fn a_dry_run_refuses_what_the_write_would() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let dry = format!("{path}?dryRun=All");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let again = env.post(&dry, json!({"metadata": {"name": "a"}})).await;
    again.expect_status(409, "AlreadyExists", "configmaps \"a\" already exists");
    env.post(&dry, json!({"metadata": {"name": "A"}})).await.expect(422);
    let stale = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
    env.put(&format!("{path}/a?dryRun=All"), stale).await.expect(409);
    env.delete(&format!("{path}/b?dryRun=All")).await.expect(404);
    env.post("/api/v1/namespaces/none-there/configmaps?dryRun=All", json!({"metadata": {"name": "a"}}))
        .await
        .expect(404);
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let before = env.get(&format!("{path}/a")).await.expect(200);
    let dry = format!("{path}/a?dryRun=All");
    let sent = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let patch = json!([{"op": "add", "path": "/data", "value": {"k": "v"}}]);
    for changed in [
        env.put(&dry, sent).await.expect(200),
        env.merge(&dry, json!({"data": {"k": "v"}})).await.expect(200),
        env.json_patch(&dry, patch).await.expect(200),
    ] {
        assert_eq!(changed["data"], json!({"k": "v"}));
        assert_eq!(changed["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    }
    assert_eq!(env.get(&format!("{path}/a")).await.expect(200), before);
}

#[tokio::test]
async fn a_dry_run_deletes_nothing() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let sent = json!({"metadata": {"name": "b", "finalizers": ["example.com/f"]}});
    env.post(&path, sent).await.expect(201);
    let before = env.get(&path).await.expect(200)["items"].clone();
    let status = env.delete(&format!("{path}/a?dryRun=All")).await.expect(200);
    assert_eq!((&status["status"], &status["details"]["name"]), (&json!("Success"), &json!("a")));
    let status = env.delete_with(&format!("{path}/a"), json!({"dryRun": ["All"]})).await.expect(200);
    assert_eq!(status["status"], "Success");
    let marked = env.delete(&format!("{path}/b?dryRun=All&propagationPolicy=Foreground")).await.expect(200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["finalizers"], json!(["example.com/f", "foregroundDeletion"]));
    let list = env.delete(&format!("{path}?dryRun=All")).await.expect(200);
    assert_eq!(list["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(env.get(&path).await.expect(200)["items"], before);
    env.merge(&format!("{path}/b"), json!({"metadata": {"finalizers": null}})).await.expect(200);
}

#[tokio::test]
async fn a_deletion_with_a_body_is_a_dry_run_only_by_its_body() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    for name in ["a", "b", "c"] {
        env.post(&path, json!({"metadata": {"name": name, "labels": {"l": name}}})).await.expect(201);
    }
    let uid = env.get(&format!("{path}/a")).await.expect(200)["metadata"]["uid"].clone();
    let options = json!({"preconditions": {"uid": uid}, "dryRun": ["All"]});
    env.delete_with(&format!("{path}/a"), options).await.expect(200);
    env.get(&format!("{path}/a")).await.expect(200);
    let options = json!({"propagationPolicy": "Background", "dryRun": ["All"]});
    env.delete_with(&format!("{path}?labelSelector=l%3Da"), options).await.expect(200);
    env.get(&format!("{path}/a")).await.expect(200);
    // The parameters are not read beside a body.
    let options = json!({"preconditions": {"uid": uid}});
    env.delete_with(&format!("{path}/a?dryRun=All"), options).await.expect(200);
    env.get(&format!("{path}/a")).await.expect(404);
    env.delete_with(&format!("{path}/b?dryRun=Some"), json!({"propagationPolicy": "Background"}))
        .await
        .expect(200);
    env.get(&format!("{path}/b")).await.expect(404);
    let options = json!({"propagationPolicy": "Background"});
    env.delete_with(&format!("{path}?dryRun=All&labelSelector=l%3Dc"), options).await.expect(200);
    env.get(&format!("{path}/c")).await.expect(404);
}

#[tokio::test]
async fn a_dry_run_is_for_all_or_not_at_all() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let sent = json!({"metadata": {"name": "b"}});
    for (query, shown) in [
        ("dryRun=Some", "[\"Some\"]"),
        ("dryRun=All&dryRun=Some", "[\"All\",\"Some\"]"),
        ("dryRun=", "[\"\"]"),
    ] {
        let why = format!("is invalid: dryRun: Unsupported value: {shown}: supported values: \"All\"");
        let answer = env.post(&format!("{path}?{query}"), sent.clone()).await;
        answer.expect_status(422, "Invalid", &format!("CreateOptions.meta.k8s.io \"\" {why}"));
    }
    let why = "is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"";
    let message = format!("DeleteOptions.meta.k8s.io \"\" {why}");
    env.delete_with(&format!("{path}/a"), json!({"dryRun": ["Some"]}))
        .await
        .expect_status(422, "Invalid", &message);
    env.delete(&format!("{path}/a?dryRun=Some")).await.expect_status(422, "Invalid", &message);
    env.get(&format!("{path}/a")).await.expect(200);
}

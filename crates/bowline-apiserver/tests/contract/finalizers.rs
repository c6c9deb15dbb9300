//! Objects that are to go, and what keeps them.

use serde_json::{Value, json};

use crate::Env;

async fn kept(env: &Env, finalizers: Value) -> (String, Value) {
    let path = env.core("configmaps");
    let sent = json!({"metadata": {"name": "a", "finalizers": finalizers}, "data": {"k": "v"}});
    let made = env.post(&path, sent).await.expect(201);
    (format!("{path}/a"), made)
}

#[tokio::test]
async fn a_finalizer_keeps_an_object_that_is_deleted() {
    let env = Env::new().await;
    let (path, made) = kept(&env, json!(["example.com/f"])).await;
    let marked = env.delete(&path).await.expect(200);
    assert_eq!((&marked["kind"], &marked["data"]), (&json!("ConfigMap"), &json!({"k": "v"})));
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(
        marked["metadata"]["deletionTimestamp"].as_str() >= made["metadata"]["creationTimestamp"].as_str()
    );
    assert_ne!(marked["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    let read = env.get(&path).await.expect(200);
    assert_eq!(read["metadata"]["deletionTimestamp"], marked["metadata"]["deletionTimestamp"]);
    env.merge(&path, json!({"metadata": {"finalizers": null}})).await.expect(200);
}

#[tokio::test]
async fn a_second_delete_changes_nothing() {
    let env = Env::new().await;
    let (path, _) = kept(&env, json!(["example.com/f"])).await;
    let marked = env.delete(&path).await.expect(200);
    let again = env.delete_with(&path, json!({"gracePeriodSeconds": 5})).await.expect(200);
    assert_eq!(again["metadata"]["resourceVersion"], marked["metadata"]["resourceVersion"]);
    env.merge(&path, json!({"metadata": {"finalizers": null}})).await.expect(200);
}

#[tokio::test]
async fn an_object_goes_with_its_last_finalizer() {
    let env = Env::new().await;
    let (path, _) = kept(&env, json!(["example.com/f", "example.com/g"])).await;
    let marked = env.delete(&path).await.expect(200);
    let patch = json!([{"op": "remove", "path": "/metadata/finalizers/0"}]);
    let one_left = env.json_patch(&path, patch).await.expect(200);
    assert_ne!(one_left["metadata"]["resourceVersion"], marked["metadata"]["resourceVersion"]);
    // The answer is what was sent, with the revision at which it was applied.
    let sent = json!({"metadata": {"name": "a"}, "data": {"k": "last"}});
    let last = env.put(&path, sent).await.expect(200);
    assert_eq!((&last["data"]["k"], &last["metadata"]["finalizers"]), (&json!("last"), &Value::Null));
    assert_eq!(last["metadata"]["resourceVersion"], one_left["metadata"]["resourceVersion"]);
    env.get(&path).await.expect(404);
    // The watch shows the last state that was stored.
    let revision = one_left["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let events = env.watch(&format!("{}?resourceVersion={revision}", env.core("configmaps")), 1).await;
    let gone = &events[0]["object"];
    assert_eq!((&events[0]["type"], &gone["data"]["k"]), (&json!("DELETED"), &json!("v")));
    assert_eq!(gone["metadata"]["finalizers"], json!(["example.com/g"]));
}

#[tokio::test]
async fn what_is_to_go_can_be_changed_but_not_saved() {
    let env = Env::new().await;
    let (path, _) = kept(&env, json!(["example.com/f"])).await;
    let marked = env.delete(&path).await.expect(200);
    let sent = json!({
        "metadata": {"name": "a", "finalizers": ["example.com/f"], "deletionTimestamp": "2001-01-01T00:00:00Z"},
        "data": {"k": "w"},
    });
    let put = env.put(&path, sent).await.expect(200);
    assert_eq!(put["data"]["k"], "w");
    let patch = json!({"metadata": {"deletionTimestamp": null, "deletionGracePeriodSeconds": null}, "data": {"k": "x"}});
    let patched = env.merge(&path, patch).await.expect(200);
    for object in [put, patched] {
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            assert_eq!(object["metadata"][field], marked["metadata"][field]);
        }
    }
    let message = "ConfigMap \"a\" is invalid: metadata.deletionGracePeriodSeconds: Invalid value: 9: field is immutable";
    let patch = json!({"metadata": {"deletionGracePeriodSeconds": 9}});
    env.merge(&path, patch).await.expect_status(422, "Invalid", message);
    env.merge(&path, json!({"metadata": {"finalizers": null}})).await.expect(200);
}

#[tokio::test]
async fn what_is_to_go_gets_no_new_finalizer() {
    let env = Env::new().await;
    let (path, _) = kept(&env, json!(["example.com/f"])).await;
    env.delete(&path).await.expect(200);
    let message = "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the \
                   object is being deleted, found new finalizers []string{\"example.com/g\"}";
    let patch = json!({"metadata": {"finalizers": ["example.com/f", "example.com/g"]}});
    env.merge(&path, patch).await.expect_status(422, "Invalid", message);
    env.merge(&path, json!({"metadata": {"finalizers": null}})).await.expect(200);
}

#[tokio::test]
async fn a_client_cannot_mark_an_object_itself() {
    let env = Env::new().await;
    let (path, _) = kept(&env, json!(null)).await;
    let message = "ConfigMap \"a\" is invalid: metadata.deletionTimestamp: Invalid value: \"2001-01-01T00:00:00Z\": \
                   field is immutable";
    let patch = json!({"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}});
    env.merge(&path, patch).await.expect_status(422, "Invalid", message);
}

#[tokio::test]
async fn a_finalizer_has_a_domain_or_is_one_of_kubernetes() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let message = "ConfigMap \"a\" is invalid: metadata.finalizers[1]: Invalid value: \"mine\": name is neither a standard \
                   finalizer name nor is it fully qualified";
    let sent = |finalizers: Value| json!({"metadata": {"name": "a", "finalizers": finalizers}});
    env.post(&path, sent(json!(["kubernetes", "mine"]))).await.expect_status(422, "Invalid", message);
    let message = "ConfigMap \"a\" is invalid: metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: \
                   finalizer orphan and foregroundDeletion cannot be both set";
    env.post(&path, sent(json!(["orphan", "foregroundDeletion"])))
        .await
        .expect_status(422, "Invalid", message);
    env.post(&path, sent(json!([]))).await.expect(201);
    let message = "ConfigMap \"a\" is invalid: metadata.finalizers[0]: Invalid value: \"mine\": name is neither a standard \
                   finalizer name nor is it fully qualified";
    env.put(&format!("{path}/a"), sent(json!(["mine"]))).await.expect_status(422, "Invalid", message);
    // Some kinds do not care.
    let leases = env.group("coordination.k8s.io/v1", "leases");
    env.post(&leases, sent(json!(["mine"]))).await.expect(201);
}

#[tokio::test]
async fn the_propagation_policy_is_recorded_as_a_finalizer() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    for (query, finalizers) in [
        ("propagationPolicy=Foreground", json!(["foregroundDeletion"])),
        ("propagationPolicy=Orphan", json!(["orphan"])),
        ("orphanDependents=true", json!(["orphan"])),
    ] {
        env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
        let marked = env.delete(&format!("{path}/a?{query}")).await.expect(200);
        assert_eq!(marked["metadata"]["finalizers"], finalizers, "{query}");
        assert!(marked["metadata"]["deletionTimestamp"].is_string());
        env.merge(&format!("{path}/a"), json!({"metadata": {"finalizers": null}})).await.expect(200);
        env.get(&format!("{path}/a")).await.expect(404);
    }
    for query in ["propagationPolicy=Background", "orphanDependents=false", ""] {
        env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
        let status = env.delete(&format!("{path}/a?{query}")).await.expect(200);
        assert_eq!(status["status"], "Success", "{query}");
        env.get(&format!("{path}/a")).await.expect(404);
    }
}

#[tokio::test]
async fn a_later_policy_replaces_the_one_before() {
    let env = Env::new().await;
    let (path, _) = kept(&env, json!(["example.com/f"])).await;
    let marked = env.delete(&format!("{path}?propagationPolicy=Foreground")).await.expect(200);
    assert_eq!(marked["metadata"]["finalizers"], json!(["example.com/f", "foregroundDeletion"]));
    let marked = env.delete(&format!("{path}?propagationPolicy=Orphan")).await.expect(200);
    assert_eq!(marked["metadata"]["finalizers"], json!(["example.com/f", "orphan"]));
    let same = env.delete(&path).await.expect(200);
    assert_eq!(same["metadata"]["resourceVersion"], marked["metadata"]["resourceVersion"]);
    let marked = env.delete(&format!("{path}?propagationPolicy=Background")).await.expect(200);
    assert_eq!(marked["metadata"]["finalizers"], json!(["example.com/f"]));
    env.merge(&path, json!({"metadata": {"finalizers": null}})).await.expect(200);
}

#[tokio::test]
async fn an_object_that_only_a_policy_keeps_goes_with_another() {
    let env = Env::new().await;
    let (path, _) = kept(&env, json!(null)).await;
    env.delete(&format!("{path}?propagationPolicy=Orphan")).await.expect(200);
    let status = env.delete(&format!("{path}?propagationPolicy=Background")).await.expect(200);
    assert_eq!(status["status"], "Success");
    env.get(&path).await.expect(404);
}

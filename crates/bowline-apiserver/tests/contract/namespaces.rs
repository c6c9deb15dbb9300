//! Namespaces: they must exist for other objects, and how their deletion ends.

use serde_json::{Value, json};

use crate::Env;

async fn namespace(env: &Env, name: &str, finalizers: Value) -> (String, String) {
    let name = env.unique(name);
    let sent = json!({"metadata": {"name": name, "finalizers": finalizers}});
    env.post("/api/v1/namespaces", sent).await.expect(201);
    (format!("/api/v1/namespaces/{name}"), name)
}

/// Lets a namespace go that was deleted.
async fn finalize(env: &Env, path: &str, name: &str) {
    env.put(&format!("{path}/finalize"), json!({"metadata": {"name": name}})).await.expect(200);
    env.get(path).await.expect(404);
}

#[tokio::test]
async fn a_new_namespace_is_active_and_kept_by_kubernetes() {
    let env = Env::new().await;
    let name = env.unique("ns");
    let sent = json!({
        "metadata": {"name": name},
        "spec": {"finalizers": ["example.com/f"]},
        "status": {"phase": "Terminating"},
    });
    let made = env.post("/api/v1/namespaces", sent).await.expect(201);
    assert_eq!(made["status"], json!({"phase": "Active"}));
    assert_eq!(made["spec"], json!({"finalizers": ["example.com/f", "kubernetes"]}));
    assert_eq!(made["metadata"]["labels"], json!({"kubernetes.io/metadata.name": name}));
    let put = json!({"metadata": {"name": name}, "spec": {"finalizers": []}});
    let put = env.put(&format!("/api/v1/namespaces/{name}"), put).await.expect(200);
    assert_eq!(put["spec"], made["spec"]);
    assert_eq!(put["metadata"]["labels"], made["metadata"]["labels"]);
}

#[tokio::test]
async fn objects_need_a_namespace_that_is_there() {
    let env = Env::new().await;
    let missing = env.unique("missing");
    let message = format!("namespaces {missing:?} not found");
    // The name of the object is looked at later.
    for name in ["a", "A_"] {
        let path = format!("/api/v1/namespaces/{missing}/configmaps");
        let answer = env.post(&path, json!({"metadata": {"name": name}})).await;
        let status = answer.expect_status(404, "NotFound", &message);
        assert_eq!(status["details"], json!({"name": missing, "kind": "namespaces"}));
    }
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{missing}/leases/a");
    env.put(&path, json!({"metadata": {"name": "a"}})).await.expect_status(404, "NotFound", &message);
    let path = format!("/api/v1/namespaces/{missing}/configmaps/a");
    let put = env.put(&path, json!({"metadata": {"name": "a"}})).await;
    put.expect_status(404, "NotFound", "configmaps \"a\" not found");
}

#[tokio::test]
async fn a_deleted_namespace_terminates() {
    let env = Env::new().await;
    let (path, name) = namespace(&env, "ns", json!(null)).await;
    let marked = env.delete(&path).await.expect(200);
    assert_eq!((&marked["kind"], &marked["status"]), (&json!("Namespace"), &json!({"phase": "Terminating"})));
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], Value::Null);
    let again = env.delete(&format!("{path}?propagationPolicy=Orphan")).await.expect(200);
    assert_eq!(again["metadata"]["resourceVersion"], marked["metadata"]["resourceVersion"]);
    finalize(&env, &path, &name).await;
}

#[tokio::test]
async fn a_terminating_namespace_takes_nothing_new() {
    let env = Env::new().await;
    let (path, name) = namespace(&env, "ns", json!(null)).await;
    let config_maps = format!("{path}/configmaps");
    env.post(&config_maps, json!({"metadata": {"name": "a"}})).await.expect(201);
    env.delete(&path).await.expect(200);
    for (metadata, shown) in
        [(json!({"name": "b"}), "b"), (json!({"generateName": "c-"}), "c-"), (json!({"name": "D_"}), "D_")]
    {
        let message = format!(
            "configmaps {shown:?} is forbidden: unable to create new content in namespace {name} because it is being \
             terminated"
        );
        let answer = env.post(&config_maps, json!({"metadata": metadata})).await;
        let status = answer.expect_status(403, "Forbidden", &message);
        let cause = json!({
            "reason": "NamespaceTerminating",
            "message": format!("namespace {name} is being terminated"),
            "field": "metadata.namespace",
        });
        assert_eq!(status["details"], json!({"name": shown, "kind": "configmaps", "causes": [cause]}));
    }
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{name}/leases/a");
    env.put(&lease, json!({"metadata": {"name": "a"}})).await.expect(403);
    env.merge(&format!("{config_maps}/a"), json!({"data": {"k": "v"}})).await.expect(200);
    env.delete(&format!("{config_maps}/a")).await.expect(200);
    finalize(&env, &path, &name).await;
}

#[tokio::test]
async fn finalize_sets_the_finalizers_of_the_spec() {
    let env = Env::new().await;
    let (path, name) = namespace(&env, "ns", json!(null)).await;
    let sent = json!({
        "metadata": {"name": name, "labels": {"a": "b"}},
        "spec": {"finalizers": ["example.com/f"]},
        "status": {"phase": "Terminating"},
    });
    let finalized = env.put(&format!("{path}/finalize"), sent).await.expect(200);
    assert_eq!(finalized["spec"], json!({"finalizers": ["example.com/f"]}));
    assert_eq!(finalized["status"], json!({"phase": "Active"}));
    assert_eq!(finalized["metadata"]["labels"]["a"], "b");
    env.merge(&format!("{path}/finalize"), json!({})).await.expect(405);
    env.delete(&path).await.expect(200);
    finalize(&env, &path, &name).await;
}

#[tokio::test]
async fn a_namespace_goes_with_the_last_that_keeps_it() {
    let env = Env::new().await;
    let (path, name) = namespace(&env, "ns", json!(["example.com/f"])).await;
    env.delete(&path).await.expect(200);
    let finalized = json!({"metadata": {"name": name, "finalizers": ["example.com/f"]}});
    env.put(&format!("{path}/finalize"), finalized).await.expect(200);
    env.get(&path).await.expect(200);
    let last = env.merge(&path, json!({"metadata": {"finalizers": null}})).await.expect(200);
    assert_eq!(last["metadata"]["name"], name);
    env.get(&path).await.expect(404);
}

#[tokio::test]
async fn a_namespace_that_nothing_keeps_goes_with_the_second_delete() {
    let env = Env::new().await;
    let (path, name) = namespace(&env, "ns", json!(null)).await;
    env.put(&format!("{path}/finalize"), json!({"metadata": {"name": name}})).await.expect(200);
    env.delete(&path).await.expect(200);
    env.get(&path).await.expect(200);
    env.delete(&path).await.expect(200);
    env.get(&path).await.expect(404);
}

#[tokio::test]
async fn the_phase_of_a_namespace_follows_its_end() {
    let env = Env::new().await;
    let (path, name) = namespace(&env, "ns", json!(null)).await;
    let message = format!(
        "Namespace {name:?} is invalid: status.Phase: Invalid value: \"Terminating\": may only be 'Active' if \
         `deletionTimestamp` is empty"
    );
    let patch = json!({"status": {"phase": "Terminating"}});
    env.merge(&format!("{path}/status"), patch).await.expect_status(422, "Invalid", &message);
    env.delete(&path).await.expect(200);
    let message = format!(
        "Namespace {name:?} is invalid: status.Phase: Invalid value: \"Active\": may only be 'Terminating' if \
         `deletionTimestamp` is not empty"
    );
    let patch = json!({"status": {"phase": "Active"}});
    env.merge(&format!("{path}/status"), patch).await.expect_status(422, "Invalid", &message);
    finalize(&env, &path, &name).await;
}

#[tokio::test]
async fn a_namespace_words_its_preconditions_differently() {
    let env = Env::new().await;
    let (path, name) = namespace(&env, "ns", json!(null)).await;
    let uid = env.get(&path).await.expect(200)["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let message = format!(
        "Operation cannot be fulfilled on namespaces {name:?}: Precondition failed: UID in precondition: u, UID in object \
         meta: {uid}"
    );
    let options = json!({"preconditions": {"uid": "u"}});
    env.delete_with(&path, options).await.expect_status(409, "Conflict", &message);
    env.delete_with(&path, json!({"preconditions": {"uid": uid}})).await.expect(200);
    finalize(&env, &path, &name).await;
}

#[tokio::test]
async fn namespaces_that_the_system_needs_stay() {
    let env = Env::new().await;
    for name in ["default", "kube-system", "kube-public"] {
        let message = format!("namespaces {name:?} is forbidden: this namespace may not be deleted");
        let answer = env.delete(&format!("/api/v1/namespaces/{name}?dryRun=All")).await;
        answer.expect_status(403, "Forbidden", &message);
    }
    env.delete("/api/v1/namespaces/kube-node-lease?dryRun=All").await.expect(200);
}

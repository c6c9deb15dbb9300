//! `status` and `scale`.

use serde_json::{Value, json};

use crate::Env;

fn workload() -> Value {
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    json!({"metadata": {"name": "a", "labels": {"l": "m"}}, "spec": spec, "status": {"replicas": 4}})
}

async fn deployment(env: &Env) -> (String, Value) {
    let path = env.group("apps/v1", "deployments");
    let made = env.post(&path, workload()).await.expect(201);
    (format!("{path}/a"), made)
}

#[tokio::test]
async fn a_new_object_has_an_empty_status() {
    let env = Env::new().await;
    let (_, made) = deployment(&env).await;
    assert_eq!(made["status"], json!({}));
    let path = env.group("policy/v1", "poddisruptionbudgets");
    let sent =
        json!({"metadata": {"name": "a"}, "spec": {"minAvailable": 1}, "status": {"disruptionsAllowed": 5}});
    let made = env.post(&path, sent).await.expect(201);
    let empty = json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
    assert_eq!(made["status"], empty);
}

#[tokio::test]
async fn the_status_is_changed_only_where_it_belongs() {
    let env = Env::new().await;
    let (path, made) = deployment(&env).await;
    let same = env.merge(&path, json!({"status": {"replicas": 7}})).await.expect(200);
    assert_eq!(same["status"], json!({}));
    assert_eq!(same["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    let patch = json!({"spec": {"replicas": 9}, "status": {"replicas": 7}});
    let patched = env.merge(&format!("{path}/status"), patch).await.expect(200);
    assert_eq!((&patched["status"]["replicas"], &patched["spec"]["replicas"]), (&json!(7), &json!(2)));
    let mut sent = workload();
    sent["status"] = json!({"replicas": 8});
    sent["spec"]["replicas"] = json!(9);
    let put = env.put(&format!("{path}/status"), sent).await.expect(200);
    assert_eq!((&put["status"]["replicas"], &put["spec"]["replicas"]), (&json!(8), &json!(2)));
    let read = env.get(&format!("{path}/status")).await.expect(200);
    assert_eq!(read["metadata"]["resourceVersion"], put["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn what_a_status_update_changes_of_the_metadata_depends_on_the_kind() {
    let env = Env::new().await;
    let (deployment, _) = deployment(&env).await;
    let sets = env.group("apps/v1", "replicasets");
    env.post(&sets, workload()).await.expect(201);
    let patch =
        json!({"metadata": {"labels": {"l": "n"}, "annotations": {"x": "y"}}, "status": {"replicas": 1}});
    let patched = env.merge(&format!("{deployment}/status"), patch.clone()).await.expect(200);
    assert_eq!(patched["metadata"]["labels"], json!({"l": "m"}));
    assert_eq!(patched["metadata"]["annotations"], json!({"x": "y"}));
    let patched = env.merge(&format!("{sets}/a/status"), patch).await.expect(200);
    assert_eq!(patched["metadata"]["labels"], json!({"l": "n"}));
    let name = env.unique("schema");
    let path = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
    let sent = json!({
        "metadata": {"name": name},
        "spec": {"matchingPrecedence": 9000, "priorityLevelConfiguration": {"name": "catch-all"}},
    });
    env.post(path, sent).await.expect(201);
    let patch = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["a/b"]}});
    let patched = env.merge(&format!("{path}/{name}/status"), patch).await.expect(200);
    for field in ["labels", "annotations", "finalizers"] {
        assert_eq!(patched["metadata"][field], Value::Null);
    }
    env.delete(&format!("{path}/{name}")).await.expect(200);
}

#[tokio::test]
async fn a_status_knows_conflicts_and_what_is_not_there() {
    let env = Env::new().await;
    let (path, _) = deployment(&env).await;
    let mut sent = workload();
    sent["metadata"]["resourceVersion"] = "1".into();
    let message = "Operation cannot be fulfilled on deployments.apps \"a\": the object has been modified; please apply your \
                   changes to the latest version and try again";
    env.put(&format!("{path}/status"), sent).await.expect_status(409, "Conflict", message);
    let none = env.group("apps/v1", "deployments/none/status");
    let mut sent = workload();
    sent["metadata"]["name"] = "none".into();
    env.put(&none, sent).await.expect_status(404, "NotFound", "deployments.apps \"none\" not found");
    env.delete(&format!("{path}/status")).await.expect(405);
    env.post(&format!("{path}/status"), json!({})).await.expect(405);
    let status = env.get(&format!("{}/status", env.core("configmaps/a"))).await.expect(404);
    assert_eq!(status["message"], "the server could not find the requested resource");
}

#[tokio::test]
async fn the_last_finalizer_may_go_with_the_status() {
    let env = Env::new().await;
    let path = env.group("apps/v1", "replicasets");
    let mut sent = workload();
    sent["metadata"]["finalizers"] = json!(["example.com/f"]);
    env.post(&path, sent).await.expect(201);
    let path = format!("{path}/a");
    env.delete(&path).await.expect(200);
    env.merge(&format!("{path}/status"), json!({"metadata": {"finalizers": null}})).await.expect(200);
    env.get(&path).await.expect(404);
}

#[tokio::test]
async fn a_scale_shows_replicas_and_selector() {
    let env = Env::new().await;
    let (path, made) = deployment(&env).await;
    env.merge(&format!("{path}/status"), json!({"status": {"replicas": 1}})).await.expect(200);
    let mut scale = env.get(&format!("{path}/scale")).await.expect(200);
    let revision = scale["metadata"]["resourceVersion"].take();
    assert!(revision.is_string() && revision != made["metadata"]["resourceVersion"]);
    let metadata = json!({
        "name": "a",
        "namespace": env.namespace,
        "uid": made["metadata"]["uid"],
        "resourceVersion": null,
        "creationTimestamp": made["metadata"]["creationTimestamp"],
    });
    let expected = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": 2},
        "status": {"replicas": 1, "selector": "a=b"},
    });
    assert_eq!(scale, expected);
    let none = env.get(&env.group("apps/v1", "deployments/none/scale")).await;
    none.expect_status(404, "NotFound", "deployments.apps \"none\" not found");
    env.post(&format!("{path}/scale"), json!({})).await.expect(405);
}

#[tokio::test]
async fn a_scale_changes_the_replicas() {
    let env = Env::new().await;
    let (path, _) = deployment(&env).await;
    let scale = format!("{path}/scale");
    let put = json!({"metadata": {"name": "a"}, "spec": {"replicas": 3}});
    assert_eq!(env.put(&scale, put).await.expect(200)["spec"], json!({"replicas": 3}));
    let merged = env.merge(&scale, json!({"spec": {"replicas": 4}})).await.expect(200);
    let again = env.merge(&scale, json!({"spec": {"replicas": 4}})).await.expect(200);
    assert_eq!(merged["metadata"]["resourceVersion"], again["metadata"]["resourceVersion"]);
    let patch = json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]);
    env.json_patch(&scale, patch).await.expect(200);
    let read = env.get(&path).await.expect(200);
    assert_eq!((&read["spec"]["replicas"], &read["metadata"]["generation"]), (&json!(5), &json!(4)));
    let dry = env.merge(&format!("{scale}?dryRun=All"), json!({"spec": {"replicas": 9}})).await.expect(200);
    assert_eq!(dry["spec"], json!({"replicas": 9}));
    let zero = env.merge(&scale, json!({"spec": {"replicas": null}})).await.expect(200);
    assert_eq!(zero["spec"], json!({}));
    assert_eq!(env.get(&path).await.expect(200)["spec"]["replicas"], 0);
}

#[tokio::test]
async fn a_scale_is_checked() {
    let env = Env::new().await;
    let (path, made) = deployment(&env).await;
    let scale = format!("{path}/scale");
    let message = "Scale.autoscaling \"a\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0";
    env.merge(&scale, json!({"spec": {"replicas": -1}})).await.expect_status(422, "Invalid", message);
    let status = env.merge(&scale, json!({"spec": {"replicas": "x"}})).await.expect(422);
    let message = status["message"].as_str().unwrap_or_default();
    let end = "json: cannot unmarshal string into Go struct field ScaleSpec.spec.replicas of type int32";
    assert!(
        message.starts_with(" \"\" is invalid: patch: Invalid value: ") && message.ends_with(end),
        "{message}"
    );
    let put = |metadata: Value| json!({"metadata": metadata, "spec": {"replicas": 3}});
    let message = "the name of the object (b) does not match the name on the URL (a)";
    env.put(&scale, put(json!({"name": "b"}))).await.expect_status(400, "BadRequest", message);
    let message = "the name of the object (a based on URL) was undeterminable: name must be provided";
    env.put(&scale, put(json!({}))).await.expect_status(400, "BadRequest", message);
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    let sent = put(json!({"name": "a", "namespace": "other"}));
    env.put(&scale, sent).await.expect_status(400, "BadRequest", message);
    let message = "Deployment in version \"v1\" cannot be handled as a Scale: converting (v1.Deployment) to \
                   (autoscaling.Scale): unknown conversion";
    let mut sent = workload();
    (sent["kind"], sent["apiVersion"]) = ("Deployment".into(), "apps/v1".into());
    env.put(&scale, sent).await.expect_status(400, "BadRequest", message);
    let message = "Operation cannot be fulfilled on deployments.apps \"a\": the object has been modified; please apply your \
                   changes to the latest version and try again";
    let sent = put(json!({"name": "a", "resourceVersion": "1"}));
    env.put(&scale, sent).await.expect_status(409, "Conflict", message);
    let message = format!(
        "Operation cannot be fulfilled on deployments.apps \"a\": StorageError: invalid object, Code: 4, Key: \
         /registry/deployments/{}/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: u, \
         UID in object meta: {}",
        env.namespace,
        made["metadata"]["uid"].as_str().unwrap_or_default()
    );
    env.put(&scale, put(json!({"name": "a", "uid": "u"}))).await.expect_status(409, "Conflict", &message);
}

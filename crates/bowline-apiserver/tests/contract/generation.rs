//! How `metadata.generation` moves.

use serde_json::{Value, json};

use crate::Env;

fn template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn workload(replicas: i64) -> Value {
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": template()});
    json!({"metadata": {"name": "a", "generation": 7}, "spec": spec})
}

fn generation(object: &Value) -> &Value {
    &object["metadata"]["generation"]
}

#[tokio::test]
async fn generation_begins_at_one_for_kinds_that_have_it() {
    let env = Env::new().await;
    let class = env.unique("class");
    let budget = json!({"metadata": {"name": "a", "generation": 7}, "spec": {"minAvailable": 1}});
    let policy = json!({"metadata": {"name": "a", "generation": 7}, "spec": {"podSelector": {}}});
    for (path, sent) in [
        (env.group("apps/v1", "replicasets"), workload(1)),
        (env.group("apps/v1", "deployments"), workload(1)),
        (env.group("policy/v1", "poddisruptionbudgets"), budget),
        (env.group("networking.k8s.io/v1", "networkpolicies"), policy),
        (env.core("podtemplates"), json!({"metadata": {"name": "a"}, "template": template()})),
    ] {
        let made = env.post(&path, sent).await.expect(201);
        assert_eq!(generation(&made), 1, "{path}");
    }
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let made = env.post(path, json!({"metadata": {"name": class}, "value": 5})).await.expect(201);
    assert_eq!(generation(&made), 1);
    // This one never moves.
    let patched = env.merge(&format!("{path}/{class}"), json!({"description": "d"})).await.expect(200);
    assert_eq!(generation(&patched), 1);
    env.delete(&format!("{path}/{class}")).await.expect(200);
}

#[tokio::test]
async fn kinds_without_a_generation_keep_what_they_were_created_with() {
    let env = Env::new().await;
    for path in [
        env.core("configmaps"),
        env.core("secrets"),
        env.core("serviceaccounts"),
        env.group("coordination.k8s.io/v1", "leases"),
        env.group("rbac.authorization.k8s.io/v1", "roles"),
    ] {
        let made = env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
        assert_eq!(generation(&made), &Value::Null, "{path}");
        let made = env.post(&path, json!({"metadata": {"name": "b", "generation": 7}})).await.expect(201);
        assert_eq!(generation(&made), 7, "{path}");
        let patch = json!({"metadata": {"generation": 9, "labels": {"a": "b"}}});
        let patched = env.merge(&format!("{path}/b"), patch).await.expect(200);
        assert_eq!(generation(&patched), 7, "{path}");
    }
    let message = "ConfigMap \"c\" is invalid: metadata.generation: Invalid value: -1: must be greater than or equal to 0";
    let sent = json!({"metadata": {"name": "c", "generation": -1}});
    env.post(&env.core("configmaps"), sent).await.expect_status(422, "Invalid", message);
}

#[tokio::test]
async fn generation_moves_with_the_spec_only() {
    let env = Env::new().await;
    let path = env.group("apps/v1", "replicasets");
    env.post(&path, workload(1)).await.expect(201);
    let path = format!("{path}/a");
    let labelled = json!({"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}, "generation": 5}});
    let status = json!({"status": {"replicas": 3}});
    for (patch, at, expected) in [
        (labelled, path.clone(), 1),
        (json!({"spec": {"replicas": 2}}), path.clone(), 2),
        (json!({"spec": {"replicas": 2}}), path.clone(), 2),
        (status.clone(), path.clone(), 2),
        (status, format!("{path}/status"), 2),
        (json!({"spec": {"minReadySeconds": 5}}), path.clone(), 3),
    ] {
        let patched = env.merge(&at, patch.clone()).await.expect(200);
        assert_eq!(generation(&patched), expected, "{patch}");
    }
}

#[tokio::test]
async fn generation_of_a_deployment_moves_with_annotations_too() {
    let env = Env::new().await;
    let path = env.group("apps/v1", "deployments");
    env.post(&path, workload(1)).await.expect(201);
    let path = format!("{path}/a");
    for (patch, at, expected) in [
        (json!({"metadata": {"labels": {"x": "y"}}}), path.clone(), 1),
        (json!({"metadata": {"annotations": {"x": "y"}}}), path.clone(), 2),
        (json!({"metadata": {"annotations": {"x": "z"}}}), format!("{path}/status"), 2),
        (json!({"spec": {"replicas": 2}, "metadata": {"annotations": {"x": "w"}}}), path.clone(), 3),
    ] {
        let patched = env.merge(&at, patch.clone()).await.expect(200);
        assert_eq!(generation(&patched), expected, "{patch}");
    }
}

#[tokio::test]
async fn generation_of_an_endpoint_slice_moves_with_labels_too() {
    let env = Env::new().await;
    let path = env.group("discovery.k8s.io/v1", "endpointslices");
    let sent = json!({"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": [], "ports": []});
    assert_eq!(generation(&env.post(&path, sent).await.expect(201)), 1);
    let path = format!("{path}/a");
    for (patch, expected) in [
        (json!({"metadata": {"annotations": {"x": "y"}}}), 1),
        (json!({"metadata": {"labels": {"x": "y"}}}), 2),
        (json!({"endpoints": [{"addresses": ["10.1.2.3"]}]}), 3),
    ] {
        assert_eq!(generation(&env.merge(&path, patch).await.expect(200)), expected);
    }
}

#[tokio::test]
async fn generation_moves_when_an_object_is_marked_to_go() {
    let env = Env::new().await;
    let mut kept = workload(1);
    kept["metadata"]["finalizers"] = json!(["example.com/f"]);
    let config_map = json!({"metadata": {"name": "a", "generation": 7, "finalizers": ["example.com/f"]}});
    for (path, sent, expected) in
        [(env.group("apps/v1", "replicasets"), kept, 2), (env.core("configmaps"), config_map, 8)]
    {
        env.post(&path, sent).await.expect(201);
        let path = format!("{path}/a");
        assert_eq!(generation(&env.delete(&path).await.expect(200)), expected);
        assert_eq!(generation(&env.delete(&path).await.expect(200)), expected);
        let gone = env.merge(&path, json!({"metadata": {"finalizers": null}})).await.expect(200);
        assert_eq!(generation(&gone), expected);
    }
}

#[tokio::test]
async fn a_daemon_set_counts_the_changes_of_its_template() {
    let env = Env::new().await;
    let path = env.group("apps/v1", "daemonsets");
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template()});
    let made = env.post(&path, json!({"metadata": {"name": "a"}, "spec": spec})).await.expect(201);
    let counted = |object: &Value| {
        object["metadata"]["annotations"]["deprecated.daemonset.template.generation"].clone()
    };
    assert_eq!((counted(&made), generation(&made)), (json!("1"), &json!(1)));
    let path = format!("{path}/a");
    let patched = env.merge(&path, json!({"spec": {"minReadySeconds": 5}})).await.expect(200);
    assert_eq!((counted(&patched), generation(&patched)), (json!("1"), &json!(2)));
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {"x": "y"}}}}});
    let patched = env.merge(&path, patch).await.expect(200);
    assert_eq!((counted(&patched), generation(&patched)), (json!("2"), &json!(3)));
}

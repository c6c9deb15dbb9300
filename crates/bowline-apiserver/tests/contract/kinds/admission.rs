//! Admission plugins that change or refuse objects of built-in kinds because of other objects.

use serde_json::{Value, json};

use super::recorded::remove;
use crate::Env;

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn a_pod_has_the_priority_of_its_class() {
    let env = Env::new().await;
    let name = env.unique("kinds");
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = json!({"metadata": {"name": name}, "value": 42, "preemptionPolicy": "Never"});
    env.post(classes, class).await.expect(201);
    let mut wanted = pod("a");
    wanted["spec"]["priorityClassName"] = name.clone().into();
    // A real server knows a new class only after a moment.
    let made = loop {
        let made = env.post(&env.core("pods"), wanted.clone()).await;
        if made.code == 201 {
            break made.body;
        }
        let why = format!("pods \"a\" is forbidden: no PriorityClass with name {name} was found");
        made.expect_status(403, "Forbidden", &why);
    };
    remove(&env, &format!("{classes}/{name}")).await;
    assert_eq!((&made["spec"]["priority"], &made["spec"]["preemptionPolicy"]), (&json!(42), &json!("Never")));
}

#[tokio::test]
async fn a_pod_keeps_its_priority_and_tolerations_when_it_is_replaced() {
    let env = Env::new().await;
    let made = env.post(&env.core("pods"), pod("a")).await.expect(201);
    let mut again = pod("a");
    again["metadata"]["labels"] = json!({"a": "b"});
    let updated = env.put(&env.core("pods/a"), again).await.expect(200);
    assert_eq!(updated["spec"], made["spec"]);
    assert_eq!(updated["status"], made["status"]);
    assert_eq!(updated["metadata"]["generation"], 1);
}

#[tokio::test]
async fn a_pod_pays_for_its_runtime() {
    let env = Env::new().await;
    let name = env.unique("kinds");
    let classes = "/apis/node.k8s.io/v1/runtimeclasses";
    let class = json!({
        "metadata": {"name": name},
        "handler": "h",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]},
    });
    env.post(classes, class).await.expect(201);
    let mut wanted = pod("a");
    wanted["spec"]["runtimeClassName"] = name.clone().into();
    let made = env.post(&env.core("pods"), wanted).await.expect(201);
    remove(&env, &format!("{classes}/{name}")).await;
    assert_eq!(made["spec"]["overhead"], json!({"cpu": "250m"}));
    assert_eq!(made["spec"]["nodeSelector"], json!({"a": "b"}));
    let tolerations = made["spec"]["tolerations"].as_array().expect("it has tolerations");
    assert!(tolerations.contains(&json!({"key": "k", "operator": "Exists"})), "{tolerations:?}");
    assert_eq!(tolerations.len(), 3);
}

#[tokio::test]
async fn the_image_of_a_pod_can_be_changed_and_moves_its_generation() {
    let env = Env::new().await;
    env.post(&env.core("pods"), pod("a")).await.expect(201);
    let patch = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "j"}]);
    let updated = env.json_patch(&env.core("pods/a"), patch).await.expect(200);
    assert_eq!(updated["spec"]["containers"][0]["image"], "j");
    assert_eq!(updated["metadata"]["generation"], 2);
}

#[tokio::test]
async fn the_class_of_service_of_a_pod_stays() {
    let env = Env::new().await;
    env.post(&env.core("pods"), pod("a")).await.expect(201);
    let patch = json!({"status": {"qosClass": "Guaranteed"}});
    let refused = env.merge(&env.core("pods/a/status"), patch).await;
    let message = "Pod \"a\" is invalid: status.qosClass: Invalid value: \"Guaranteed\": field is immutable";
    refused.expect_status(422, "Invalid", message);
}

#[tokio::test]
async fn an_autoscaler_can_be_changed_in_either_version() {
    let env = Env::new().await;
    let (one, two) = (
        env.group("autoscaling/v1", "horizontalpodautoscalers"),
        env.group("autoscaling/v2", "horizontalpodautoscalers"),
    );
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let metric = json!({
        "type": "Pods",
        "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}},
    });
    let hpa = json!({
        "metadata": {"name": "a"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 5, "metrics": [metric]},
    });
    env.post(&two, hpa).await.expect(201);
    env.merge(&format!("{one}/a"), json!({"spec": {"maxReplicas": 7}})).await.expect(200);
    let read = env.get(&format!("{two}/a")).await.expect(200);
    assert_eq!(read["spec"]["maxReplicas"], 7);
    assert_eq!(read["spec"]["metrics"], json!([metric]));
    assert!(read["metadata"].get("annotations").is_none(), "{read:#}");
}

#[tokio::test]
async fn the_limits_of_a_namespace_are_defaults_and_bounds_of_its_pods() {
    let env = Env::new().await;
    let range = json!({
        "metadata": {"name": "range"},
        "spec": {"limits": [
            {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"memory": "1Mi"}, "max": {"cpu": "2"}},
            {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}},
        ]},
    });
    env.post(&env.core("limitranges"), range).await.expect(201);
    // A real server knows a new range only after a moment.
    let mut attempts = 0;
    let made = loop {
        attempts += 1;
        let made = env.post(&env.core("pods"), pod(&format!("p{attempts}"))).await.expect(201);
        if made["metadata"]["annotations"].is_object() || attempts == 100 {
            break made;
        }
    };
    let resources = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1", "memory": "1Mi"}});
    assert_eq!(made["spec"]["containers"][0]["resources"], resources);
    let note = "LimitRanger plugin set: cpu, memory request for container c; cpu limit for container c";
    assert_eq!(made["metadata"]["annotations"]["kubernetes.io/limit-ranger"], note);
    assert_eq!(made["status"]["qosClass"], "Burstable");
    let mut greedy = pod("greedy");
    greedy["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "3"}});
    let refused = env.post(&env.core("pods"), greedy).await;
    let why = "pods \"greedy\" is forbidden: maximum cpu usage per Container is 2, but limit is 3";
    refused.expect_status(403, "Forbidden", why);
    for (asked, why) in [
        ("3Gi", "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
        ("1Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"),
    ] {
        let claim = json!({
            "metadata": {"name": "c"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": asked}}},
        });
        let refused = env.post(&env.core("persistentvolumeclaims"), claim).await;
        refused.expect_status(403, "Forbidden", &format!("persistentvolumeclaims \"c\" is forbidden: {why}"));
    }
}

#[tokio::test]
async fn a_claim_grows_once_it_is_bound_if_its_class_allows_it() {
    let env = Env::new().await;
    let name = env.unique("kinds");
    let classes = "/apis/storage.k8s.io/v1/storageclasses";
    let class = json!({"metadata": {"name": name}, "provisioner": "example.com/p"});
    env.post(classes, class).await.expect(201);
    let claims = env.core("persistentvolumeclaims");
    let claim = json!({
        "metadata": {"name": "a"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": name,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    env.post(&claims, claim).await.expect(201);
    let path = format!("{claims}/a");
    let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
    env.merge(&format!("{path}/status"), bound).await.expect(200);
    let more = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    let refused = env.merge(&path, more.clone()).await;
    env.merge(&format!("{classes}/{name}"), json!({"allowVolumeExpansion": true})).await.expect(200);
    let mut grown = env.merge(&path, more.clone()).await;
    // A real server knows a change of a class only after a moment.
    for _ in 0..100 {
        if grown.code == 200 {
            break;
        }
        grown = env.merge(&path, more.clone()).await;
    }
    remove(&env, &format!("{classes}/{name}")).await;
    let why = "persistentvolumeclaims \"a\" is forbidden: only dynamically provisioned pvc can be resized and the \
               storageclass that provisions the pvc must support resize";
    refused.expect_status(403, "Forbidden", why);
    assert_eq!(grown.expect(200)["spec"]["resources"]["requests"]["storage"], "2Gi");
}

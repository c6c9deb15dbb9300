//! What admission plugins make of built-in kinds because of other objects.

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

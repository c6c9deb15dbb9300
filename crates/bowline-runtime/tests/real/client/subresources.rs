//! What stands behind an object's name: status, scale, eviction.

use bowline_runtime::{ClusterBuilder, Patch};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::Status;
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::world::World;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "client.example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
struct WebsiteSpec {
    host: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct WebsiteStatus {
    visits: Option<i32>,
}

fn deployment(world: &World) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"namespace": world.namespace, "name": "a"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .expect("a deployment")
}

#[test]
fn a_status_is_written_apart_from_the_rest() {
    World::run(|world| async move {
        let cluster = world.cluster(ClusterBuilder::cached::<Deployment>);
        let (client, key) = (cluster.client(), world.key("a"));
        let mut object = client.create(&deployment(&world)).await.unwrap();
        object.status.get_or_insert_default().replicas = Some(7);
        object.spec.get_or_insert_default().replicas = Some(9);
        client.status().update(&object).await.unwrap();
        let read = client.get::<Deployment>(&key).await.unwrap();
        assert_eq!(read.status.as_ref().and_then(|status| status.replicas), Some(7));
        assert_eq!(read.spec.as_ref().and_then(|spec| spec.replicas), Some(1), "only the status counts");
        let patch = Patch::merge(&json!({"status": {"replicas": 8}})).unwrap();
        client.status().patch::<Deployment>(&key, &patch).await.unwrap();
        let read = client.get::<Deployment>(&key).await.unwrap();
        assert_eq!(read.status.as_ref().and_then(|status| status.replicas), Some(8));
    });
}

#[test]
fn a_scale_is_of_another_kind_than_what_it_scales() {
    World::run(|world| async move {
        let cluster = world.cluster(ClusterBuilder::cached::<Deployment>);
        let (client, key) = (cluster.client(), world.key("a"));
        client.create(&deployment(&world)).await.unwrap();
        let scale = client.subresource("scale");
        let mut size: Scale = scale.get::<Deployment, _>(&key).await.unwrap();
        size.spec.get_or_insert_default().replicas = Some(3);
        scale.update::<Deployment, Scale>(&key, &size).await.unwrap();
        let replicas = async || {
            let read = client.get::<Deployment>(&key).await.unwrap();
            read.spec.as_ref().and_then(|spec| spec.replicas)
        };
        assert_eq!(replicas().await, Some(3), "it is read at once");
        let patch = Patch::merge(&json!({"spec": {"replicas": 4}})).unwrap();
        let size: Scale = scale.patch::<Deployment, _>(&key, &patch).await.unwrap();
        assert_eq!(size.spec.and_then(|spec| spec.replicas), Some(4));
        assert_eq!(replicas().await, Some(4));
    });
}

#[test]
fn a_pod_is_evicted() {
    World::run(|world| async move {
        let (client, key) = (world.client(), world.key("p"));
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"namespace": world.namespace, "name": "p"},
            "spec": {"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}]},
        }))
        .unwrap();
        world.until("there is a service account", || async { client.create(&pod).await.is_ok() }).await;
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": world.namespace, "name": "p"},
        });
        let status: Status = client.subresource("eviction").create::<Pod, _>(&key, &eviction).await.unwrap();
        assert!(status.is_success(), "{status:?}");
        assert!(client.find::<Pod>(&key).await.unwrap().is_none());
    });
}

#[test]
fn a_status_that_is_the_same_is_not_written() {
    World::run(|world| async move {
        let client = world.client();
        let definition: CustomResourceDefinition = Website::crd();
        client.create(&definition).await.unwrap();
        let mut website = Website::new("a", WebsiteSpec { host: "example.com".to_owned() });
        website.metadata.namespace = Some(world.namespace.clone());
        world.until("the kind is served", || async { client.create(&website).await.is_ok() }).await;
        let read = client.get::<Website>(&world.key("a")).await.unwrap();
        let written =
            client.update_status(&read, |status| status.visits = Some(1)).await.unwrap().expect("written");
        assert_eq!(written.status, Some(WebsiteStatus { visits: Some(1) }));
        assert!(client.update_status(&written, |status| status.visits = Some(1)).await.unwrap().is_none());
        let stale = client.update_status(&read, |status| status.visits = Some(2)).await.unwrap_err();
        assert!(stale.is_conflict(), "{stale}");
        client
            .delete::<CustomResourceDefinition>(&bowline_cache::ObjectKey::cluster(
                "websites.client.example.com",
            ))
            .await
            .unwrap();
    });
}

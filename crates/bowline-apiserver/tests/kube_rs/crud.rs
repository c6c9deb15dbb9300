//! `kube::Api`.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{
    Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, ResourceExt as _, WatchEvent,
    WatchParams,
};
use kube::discovery::{Discovery, Scope};
use serde_json::json;

use crate::{clusters, soon};

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": "a"}}, "data": {"k": "v"}}))
        .expect("it is a configmap")
}

#[tokio::test]
async fn objects_are_created_read_changed_and_deleted() {
    for cluster in clusters().await {
        let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client.clone());
        let mut made = maps.create(&PostParams::default(), &config_map("a")).await.expect("it is created");
        assert_eq!(maps.get("a").await.expect("it is there"), made);
        made.data.get_or_insert_default().insert("more".to_owned(), "w".to_owned());
        let replaced = maps.replace("a", &PostParams::default(), &made).await.expect("it is replaced");
        assert_ne!(replaced.resource_version(), made.resource_version());
        let conflict = maps.replace("a", &PostParams::default(), &made).await.expect_err("it is stale");
        assert!(matches!(&conflict, kube::Error::Api(status) if status.is_conflict()), "{conflict}");
        let patch = Patch::Merge(json!({"data": {"k": null}}));
        let patched = maps.patch("a", &PatchParams::default(), &patch).await.expect("it is patched");
        assert_eq!(patched.data.map(|data| data.len()), Some(1));
        let entry = maps.entry("b").await.expect("it can be asked for").or_insert(|| config_map("b"));
        let mut entry = entry.and_modify(|map| map.labels_mut().clear());
        entry.commit(&PostParams::default()).await.expect("it is created");
        let selected = ListParams::default().labels("app=a");
        let names = maps.list(&selected).await.expect("they are listed").into_iter();
        assert_eq!(names.map(|map| map.name_any()).collect::<Vec<_>>(), ["a"]);
        let metadata = maps.list_metadata(&ListParams::default()).await.expect("they are listed");
        assert_eq!(metadata.items.len(), 2);
        maps.delete("a", &DeleteParams::default()).await.expect("it is deleted");
        assert_eq!(maps.get_opt("a").await.expect("it can be asked for"), None);
        maps.delete_collection(&DeleteParams::default(), &ListParams::default())
            .await
            .expect("all are deleted");
        assert!(maps.list(&ListParams::default()).await.expect("they are listed").items.is_empty());
    }
}

#[tokio::test]
async fn subresources_are_used() {
    for cluster in clusters().await {
        let deployments: Api<Deployment> = Api::default_namespaced(cluster.client.clone());
        let pod = json!({
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "a", "image": "a"}]},
        });
        let deployment = json!({
            "metadata": {"name": "a"},
            "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": pod},
        });
        let deployment = serde_json::from_value(deployment).expect("it is a deployment");
        let made = deployments.create(&PostParams::default(), &deployment).await.expect("it is created");
        assert_eq!(made.spec.and_then(|spec| spec.replicas), Some(1));
        let patch = Patch::Merge(json!({"spec": {"replicas": 3}}));
        let scale =
            deployments.patch_scale("a", &PatchParams::default(), &patch).await.expect("it is scaled");
        assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(3));
        let status = Patch::Merge(json!({"status": {"replicas": 2}}));
        deployments.patch_status("a", &PatchParams::default(), &status).await.expect("it has a status");
        let read = deployments.get_status("a").await.expect("it has a status");
        assert_eq!(read.status.and_then(|status| status.replicas), Some(2));

        let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
        let mut pod: Pod = serde_json::from_value(pod).expect("it is a pod");
        pod.metadata.name = Some("a".to_owned());
        pods.create(&PostParams::default(), &pod).await.expect("it is created");
        pods.evict("a", &EvictParams::default()).await.expect("it is evicted");
        assert_eq!(pods.get_opt("a").await.expect("it can be asked for"), None);
    }
}

#[tokio::test]
async fn a_watch_tells_what_happens() {
    for cluster in clusters().await {
        let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
        let events =
            namespaces.watch(&WatchParams::default().disable_bookmarks(), "0").await.expect("a watch begins");
        let mut events = std::pin::pin!(events);
        for _ in 0..4 {
            let event = soon("a namespace", futures::StreamExt::next(&mut events)).await;
            assert!(matches!(event, Some(Ok(WatchEvent::Added(_)))), "{event:?}");
        }
        let mut made = Namespace::default();
        made.metadata.name = Some("new".to_owned());
        namespaces.create(&PostParams::default(), &made).await.expect("it is created");
        let event = soon("the new one", futures::StreamExt::next(&mut events)).await;
        assert!(matches!(&event, Some(Ok(WatchEvent::Added(new))) if new.name_any() == "new"), "{event:?}");
    }
}

#[tokio::test]
async fn discovery_finds_every_kind() {
    for cluster in clusters().await {
        let plain = Discovery::new(cluster.client.clone()).run().await.expect("an answer");
        let aggregated = Discovery::new(cluster.client.clone()).run_aggregated().await.expect("an answer");
        for discovery in [plain, aggregated] {
            let kind = kube::api::GroupVersionKind::gvk("apps", "v1", "Deployment");
            let (resource, capabilities) = discovery.resolve_gvk(&kind).expect("there are deployments");
            assert_eq!((resource.plural.as_str(), &capabilities.scope), ("deployments", &Scope::Namespaced));
            assert!(discovery.groups().count() > 15);
        }
        let version = cluster.client.apiserver_version().await.expect("an answer");
        assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "36"));
    }
}

#[tokio::test]
async fn errors_are_told_as_kube_knows_them() {
    for cluster in clusters().await {
        let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client.clone());
        let error = maps.get("nothing").await.expect_err("it is not there");
        assert!(matches!(&error, kube::Error::Api(status) if status.is_not_found()), "{error}");
        let error = maps.create(&PostParams::default(), &config_map("Bad")).await.expect_err("it is invalid");
        assert!(matches!(&error, kube::Error::Api(status) if status.is_invalid()), "{error}");
        maps.create(&PostParams::default(), &config_map("a")).await.expect("it is created");
        let error = maps.create(&PostParams::default(), &config_map("a")).await.expect_err("it exists");
        assert!(matches!(&error, kube::Error::Api(status) if status.is_already_exists()), "{error}");
    }
}

//! Kinds in other representations than a Rust type: dynamic, metadata only, and packed.

use bowline_cache::{Kind, ListQuery};
use bowline_machinery::GroupVersionKind;
use bowline_runtime::{ClusterBuilder, Patch};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::core::{DynamicObject, PartialObjectMeta};
use serde_json::json;

use super::world::{World, labels, names, value};

#[test]
fn a_kind_that_is_only_a_name_has_all_verbs() {
    World::run(|world| async move {
        let client = world.client();
        let kind = client.kind(&GroupVersionKind::new("", "v1", "ConfigMap")).await.unwrap();
        let maps = client.for_kind(&kind);
        let mut object = DynamicObject {
            types: None,
            metadata: world.labelled("a", "x").metadata,
            data: json!({"data": {"value": "1"}}),
        };
        let created = maps.create(&object).await.unwrap();
        assert_eq!(created.types.as_ref().map(|types| types.kind.as_str()), Some("ConfigMap"));
        assert_eq!(created.data["data"]["value"], "1");
        object.data = json!({"data": {"value": "2"}});
        maps.update(&object).await.unwrap();
        assert_eq!(maps.get(&world.key("a")).await.unwrap().data["data"]["value"], "2");
        let patch = Patch::merge(&json!({"data": {"value": "3"}})).unwrap();
        assert_eq!(maps.patch(&world.key("a"), &patch).await.unwrap().data["data"]["value"], "3");
        let query = ListQuery::new().in_namespace(&world.namespace).labels(labels("app=x"));
        assert_eq!(names(&maps.list(&query).await.unwrap()), ["a"]);
        maps.delete(&world.key("a")).await.unwrap();
        assert!(maps.find(&world.key("a")).await.unwrap().is_none());
    });
}

#[test]
fn dynamic_reads_are_cached_only_when_asked() {
    World::run(|world| async move {
        let kind = Kind::dynamic(Kind::<ConfigMap>::typed().resource().clone(), true);
        let cluster = world.cluster(ClusterBuilder::cached::<ConfigMap>);
        assert!(!cluster.client().is_cached(&kind));
        let asked = world.cluster(|builder| builder.cached_kind(kind.clone()));
        let maps = asked.client().for_kind(&kind);
        asked.client().create(&world.map("a", "1")).await.unwrap();
        let one = maps.get(&world.key("a")).await.unwrap();
        assert!(std::sync::Arc::ptr_eq(&one, &maps.get(&world.key("a")).await.unwrap()));
        assert_eq!(one.data["data"]["value"], "1");
    });
}

#[test]
fn metadata_is_read_and_patched_alone() {
    World::run(|world| async move {
        let metadata = Kind::<PartialObjectMeta<ConfigMap>>::metadata();
        let cluster = world.cluster(|builder| builder.cached::<ConfigMap>().cached_kind(metadata.clone()));
        let client = cluster.client();
        let objects = client.for_kind(&metadata);
        for round in 0..10 {
            let name = format!("a{round}");
            client.create(&world.map(&name, "1")).await.unwrap();
            assert_eq!(objects.get(&world.key(&name)).await.unwrap().name_any(), name);
            let patch = Patch::merge(&json!({"metadata": {"labels": {"round": name}}})).unwrap();
            let patched = objects.patch(&world.key(&name), &patch).await.unwrap();
            assert_eq!(patched.labels()["round"], name);
            // A write in one representation is visible in the other.
            let read = client.get::<ConfigMap>(&world.key(&name)).await.unwrap();
            assert_eq!((value(&read), &read.labels()["round"]), ("1", &name));
            assert_eq!(objects.live_get(&world, &name).await.labels()["round"], name);
            objects.delete(&world.key(&name)).await.unwrap();
            assert!(client.find::<ConfigMap>(&world.key(&name)).await.unwrap().is_none());
            assert!(objects.find(&world.key(&name)).await.unwrap().is_none());
        }
    });
}

#[test]
fn typed_objects_are_read_from_a_cache_that_has_them_packed() {
    World::run(|world| async move {
        let packed = Kind::packed::<ConfigMap>();
        let cluster = world.cluster(|builder| builder.cached_kind(packed.clone()));
        let client = cluster.client();
        assert!(client.is_cached(&Kind::<ConfigMap>::typed()));
        for round in 0..10 {
            let name = format!("a{round}");
            let created = client.create(&world.labelled(&name, "x")).await.unwrap();
            let read = client.get::<ConfigMap>(&world.key(&name)).await.unwrap();
            assert_eq!(*read, created);
            assert_eq!(read.managed_fields(), []);
            let patch = Patch::merge(&json!({"data": {"value": "2"}})).unwrap();
            let patched = client.patch::<ConfigMap>(&world.key(&name), &patch).await.unwrap();
            let query = ListQuery::new().in_namespace(&world.namespace).labels(labels("app=x"));
            let listed = client.list::<ConfigMap>(&query).await.unwrap();
            assert_eq!((names(&listed), value(&listed[0])), (vec![name.clone()], "2"));
            assert_eq!(*listed[0], patched);
            let object = client.for_kind(&packed).get(&world.key(&name)).await.unwrap();
            assert_eq!(object.unpack::<ConfigMap>().unwrap(), patched);
            client.delete::<ConfigMap>(&world.key(&name)).await.unwrap();
            assert!(client.find::<ConfigMap>(&world.key(&name)).await.unwrap().is_none());
        }
    });
}

trait LiveGet {
    async fn live_get(&self, world: &World, name: &str) -> std::sync::Arc<PartialObjectMeta<ConfigMap>>;
}

impl LiveGet for bowline_runtime::KindClient<PartialObjectMeta<ConfigMap>> {
    async fn live_get(&self, world: &World, name: &str) -> std::sync::Arc<PartialObjectMeta<ConfigMap>> {
        world.client().for_kind(self.kind()).get(&world.key(name)).await.expect("it is there")
    }
}

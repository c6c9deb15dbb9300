//! Basic functions of every client.

use bowline_cache::ListQuery;
use bowline_runtime::IgnoreErrors as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use crate::world::{World, key, map, value};

#[test]
fn objects_are_created_read_changed_and_deleted() {
    World::run(|world| async move {
        let cluster = world.cluster(|builder| builder);
        let client = cluster.client();
        assert!(client.find::<ConfigMap>(&key("a")).await.unwrap().is_none());
        let mut created = client.create(&map("a", "1")).await.unwrap();
        assert!(created.metadata.uid.is_some());
        assert_eq!(value(&client.get::<ConfigMap>(&key("a")).await.unwrap()), "1");
        created.data = map("a", "2").data;
        client.update(&created).await.unwrap();
        let all = client.list::<ConfigMap>(&ListQuery::new().in_namespace("default")).await.unwrap();
        assert_eq!(all.iter().map(|object| value(object)).collect::<Vec<_>>(), ["2"]);
        let conflict = client.update(&created).await.unwrap_err();
        assert!(conflict.is_conflict(), "{conflict}");
        client.delete::<ConfigMap>(&key("a")).await.unwrap();
        let missing = client.get::<ConfigMap>(&key("a")).await.unwrap_err();
        assert_eq!(
            missing.to_string(),
            "get configmaps (v1) default/a: configmaps \"a\" not found (404 NotFound)"
        );
        assert!(client.delete::<ConfigMap>(&key("a")).await.ignore_not_found().unwrap().is_none());
    });
}

#[test]
fn a_declared_kind_is_read_from_the_cache_and_others_are_not() {
    World::run(|world| async move {
        let cluster =
            world.cluster(|builder| builder.cached::<ConfigMap>().cached::<Secret>().uncached::<Secret>());
        let client = cluster.client();
        client.create(&map("a", "1")).await.unwrap();
        let cached = client.get::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!(value(&cached), "1");
        assert!(client.find::<Secret>(&key("a")).await.unwrap().is_none());
        let informers: Vec<_> = cluster.cache().stats().into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(informers, ["configmaps (v1)"]);
        let live = client.live().get::<ConfigMap>(&key("a")).await.unwrap();
        assert!(!std::sync::Arc::ptr_eq(&cached, &live));
        assert_eq!(cached.metadata.uid, live.metadata.uid);
    });
}

#[test]
fn a_kind_is_kept_from_the_cache_by_its_name() {
    World::run(|world| async move {
        let secrets = bowline_machinery::GroupKind::new("", "Secret");
        let cluster = world.cluster(|builder| builder.cached::<Secret>().uncached_kind(&secrets));
        assert!(cluster.client().find::<Secret>(&key("a")).await.unwrap().is_none());
        assert_eq!(cluster.cache().stats().len(), 0);
    });
}

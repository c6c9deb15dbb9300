//! Typed reads of a kind that is cached packed: the same as of one that is cached typed, but that each is decoded anew.

use std::sync::Arc;
use std::time::Duration;

use bowline_cache::{CacheOptions, Kind, ListQuery, SelectionSettings};
use bowline_machinery::{FieldSelector, LabelSelector};
use bowline_runtime::{ClientError, Cluster, ClusterBuilder};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::core::{DynamicObject, ObjectMeta};

use crate::failures::Numbers;
use crate::world::{World, key, labelled, map, value};

const LATE: Duration = Duration::from_secs(2);

/// A cluster whose config maps are cached packed and in sync.
async fn packed(world: &World, options: impl FnOnce(ClusterBuilder) -> ClusterBuilder) -> Cluster {
    let cluster = world.cluster(|builder| options(builder.cached_kind(Kind::packed::<ConfigMap>())));
    cluster.client().find::<ConfigMap>(&key("nobody")).await.expect("it is in sync");
    cluster
}

fn everything() -> ListQuery {
    ListQuery::new().in_namespace("default")
}

#[test]
fn typed_reads_ask_nobody() {
    World::run(|world| async move {
        let other = world.other();
        for (name, label) in [("b", "web"), ("a", "web"), ("c", "db")] {
            other.create(&labelled(name, label)).await.unwrap();
        }
        let cluster = packed(&world, |builder| builder).await;
        let (client, expected) = (cluster.client(), other.get::<ConfigMap>(&key("a")).await.unwrap());
        world.asked();
        let read = client.get::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!(read, expected);
        let web = everything().labels(LabelSelector::parse("app=web").unwrap());
        let listed = client.list::<ConfigMap>(&web).await.unwrap();
        assert_eq!(listed.iter().map(|map| map.name_any()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(listed[0], expected);
        assert!(client.find::<ConfigMap>(&key("d")).await.unwrap().is_none());
        assert_eq!(world.asked(), [""; 0]);
        // These were not requested.
        let dynamic = Kind::dynamic(Kind::<ConfigMap>::typed().resource().clone(), true);
        assert!(!client.is_cached(&dynamic) && client.is_cached(&Kind::<ConfigMap>::typed()));
        client.for_kind::<DynamicObject>(&dynamic).get(&key("a")).await.unwrap();
        client.live().get::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!(world.asked(), ["get configmaps a"; 2]);
    });
}

#[test]
fn a_list_by_fields_is_refused_before_anything_is_waited_for() {
    World::run(|world| async move {
        let by_field = everything().fields(FieldSelector::parse("metadata.name=a").unwrap());
        // Nothing is started, and would be waited for.
        let typed = Cluster::builder(&world.spawner(), world.kube.clone()).cached::<ConfigMap>();
        let packed =
            Cluster::builder(&world.spawner(), world.kube.clone()).cached_kind(Kind::packed::<ConfigMap>());
        for cluster in [typed.build().unwrap(), packed.build().unwrap()] {
            let error = cluster.client().list::<ConfigMap>(&by_field).await.unwrap_err().to_string();
            assert!(
                error.starts_with("list configmaps (v1)") && error.contains("metadata.name=a"),
                "{error}"
            );
        }
        assert_eq!(world.asked(), [""; 0]);
    });
}

#[test]
fn an_error_does_not_tell_how_a_kind_is_cached() {
    World::run(|world| async move {
        let cluster = Cluster::builder(&world.spawner(), world.kube.clone())
            .cached_kind(Kind::packed::<ConfigMap>())
            .build()
            .unwrap();
        let error = cluster.client().get::<ConfigMap>(&key("a")).await.unwrap_err();
        assert!(error.to_string().starts_with("get configmaps (v1) default/a: "), "{error}");
    });
}

#[test]
fn typed_objects_are_preferred_where_they_are_cached_too() {
    World::run(|world| async move {
        world.other().create(&map("a", "1")).await.unwrap();
        let cluster = packed(&world, ClusterBuilder::cached::<ConfigMap>).await;
        let read = async || cluster.client().get::<ConfigMap>(&key("a")).await.unwrap();
        assert!(Arc::ptr_eq(&read().await, &read().await));
    });
}

#[test]
fn who_takes_it_back_reads_live() {
    World::run(|world| async move {
        let cluster = world.cluster(|builder| builder);
        let (client, kind) = (cluster.client(), Kind::packed::<ConfigMap>());
        client.create(&map("a", "1")).await.unwrap();
        client.declare(&kind);
        client.get::<ConfigMap>(&key("a")).await.unwrap();
        client.undeclare(&kind);
        world.asked();
        client.get::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!(world.asked(), ["get configmaps a"]);
    });
}

#[test]
fn what_was_written_is_read_under_a_late_watch() {
    World::run(|world| async move {
        let cluster = packed(&world, |builder| builder).await;
        let (client, glance) = (cluster.client(), cluster.client().without_read_your_writes());
        world.delay(LATE);
        let created = client.create(&map("a", "1")).await.unwrap();
        assert!(glance.find::<ConfigMap>(&key("a")).await.unwrap().is_none());
        assert_eq!(*client.get::<ConfigMap>(&key("a")).await.unwrap(), created);
        client.update(&map("a", "2")).await.unwrap();
        assert_eq!(value(&client.list::<ConfigMap>(&everything()).await.unwrap()[0]), "2");
        client.delete::<ConfigMap>(&key("a")).await.unwrap();
        assert!(client.find::<ConfigMap>(&key("a")).await.unwrap().is_none());
        assert!(!world.asked().contains(&"get configmaps a".to_owned()), "it was in the cache");
    });
}

#[test]
fn the_server_is_asked_when_the_watch_is_too_late() {
    World::run(|world| async move {
        let cluster = packed(&world, |builder| builder).await;
        let client = cluster.client();
        world.hold();
        let created = client.create(&map("a", "1")).await.unwrap();
        world.asked();
        assert_eq!(*client.get::<ConfigMap>(&key("a")).await.unwrap(), created);
        assert_eq!(*client.list::<ConfigMap>(&everything()).await.unwrap()[0], created);
        assert_eq!(world.asked(), ["get configmaps a", "get configmaps a"]);
        world.release();
    });
}

#[test]
fn what_the_cache_does_to_metadata_is_seen() {
    World::run(|world| async move {
        world.other().create(&labelled("a", "web")).await.unwrap();
        let options = CacheOptions::new().transform(|meta: &mut ObjectMeta| meta.labels = None);
        let cluster = packed(&world, |builder| builder.cache(options)).await;
        let read = cluster.client().get::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!((value(&read), read.labels().len()), ("1", 0));
    });
}

#[test]
fn what_the_cache_leaves_out_is_not_found() {
    World::run(|world| async move {
        for (name, label) in [("a", "web"), ("b", "db")] {
            world.other().create(&labelled(name, label)).await.unwrap();
        }
        let options = CacheOptions::new().settings(SelectionSettings::new().labels("app=web"));
        let cluster = packed(&world, |builder| builder.cache(options)).await;
        let client = cluster.client();
        assert!(client.find::<ConfigMap>(&key("b")).await.unwrap().is_none());
        // A write that leads out of what is cached counts as a deletion.
        world.delay(LATE);
        client.update(&labelled("a", "db")).await.unwrap();
        assert!(client.find::<ConfigMap>(&key("a")).await.unwrap().is_none());
    });
}

#[test]
fn one_that_is_not_as_its_type_has_it_is_set_aside_and_the_others_are_read() {
    World::run(|world| async move {
        let cluster = packed(&world, |builder| builder).await;
        let client = cluster.client();
        let good = |name: &str| ConfigMap { data: None, ..map(name, "") };
        client.create(&good("good")).await.unwrap();
        client.create(&map("bad", "one")).await.unwrap();
        let names = async || {
            let listed = client.list::<Numbers>(&everything()).await.unwrap();
            listed.iter().map(|object| object.name_any()).collect::<Vec<_>>()
        };
        assert_eq!(names().await, ["good"]);
        let error = client.get::<Numbers>(&key("bad")).await.unwrap_err();
        assert!(matches!(error, ClientError::Answer { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("default/bad") && text.contains("invalid type"), "{text}");
        let informer = cluster.cache().get_informer(&Kind::packed::<ConfigMap>()).unwrap();
        let aside = informer.undecodable();
        assert_eq!(aside.iter().map(|object| object.key.to_string()).collect::<Vec<_>>(), ["default/bad"]);
        // It heals.
        client.update(&good("bad")).await.unwrap();
        assert_eq!(names().await, ["bad", "good"]);
        assert_eq!(informer.undecodable(), []);
    });
}

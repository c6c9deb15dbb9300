//! Reads include the client's own writes, however late the watch is.

use std::time::Duration;

use bowline_cache::{CacheOptions, Kind, KindOptions, ListQuery, SelectionSettings};
use bowline_runtime::{Client, Cluster, ClusterBuilder, Patch};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::ResourceExt as _;
use kube::core::PartialObjectMeta;
use serde_json::json;

use crate::world::{World, key, labelled, map, value};

const LATE: Duration = Duration::from_secs(2);

/// A cluster that caches only the config maps with `app=web`.
async fn selected(world: &World) -> Cluster {
    let kind =
        KindOptions::new(Kind::<ConfigMap>::typed()).settings(SelectionSettings::new().labels("app=web"));
    world.cached(|builder| builder.cache(CacheOptions::new().kind(kind))).await
}

/// A client that reads the informer's state without waiting.
fn glance(cluster: &Cluster) -> Client {
    cluster.client().without_read_your_writes()
}

#[test]
fn a_created_object_is_read_under_a_late_watch() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        world.delay(LATE);
        let (client, start) = (cluster.client(), world.clock.now());
        let created = client.create(&map("a", "1")).await.unwrap();
        assert!(glance(&cluster).find::<ConfigMap>(&key("a")).await.unwrap().is_none());
        let read = client.get::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!(read.metadata.uid, created.metadata.uid);
        assert!((2.0..2.1).contains(&world.since(start)), "{}", world.since(start));
        assert!(!world.asked().contains(&"get configmaps a".to_owned()), "it was in the cache");
    });
}

#[test]
fn an_updated_object_is_read_under_a_late_watch() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        let mut object = client.create(&map("a", "1")).await.unwrap();
        client.get::<ConfigMap>(&key("a")).await.unwrap();
        world.delay(Duration::from_secs(1));
        // Of several writes, the last one counts.
        for number in ["2", "3", "4"] {
            object.data = map("a", number).data;
            object = client.update(&object).await.unwrap();
        }
        assert_eq!(value(&glance(&cluster).get::<ConfigMap>(&key("a")).await.unwrap()), "1");
        let late = client.clone().without_read_your_writes();
        assert_eq!(value(&client.get::<ConfigMap>(&key("a")).await.unwrap()), "4");
        assert_eq!(value(&late.get::<ConfigMap>(&key("a")).await.unwrap()), "4");
        let patch = Patch::merge(&json!({"data": {"value": "5"}})).unwrap();
        client.patch::<ConfigMap>(&key("a"), &patch).await.unwrap();
        assert_eq!(value(&client.get::<ConfigMap>(&key("a")).await.unwrap()), "5");
    });
}

#[test]
fn a_deleted_object_is_gone_under_a_late_watch() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        client.create(&map("a", "1")).await.unwrap();
        client.get::<ConfigMap>(&key("a")).await.unwrap();
        world.delay(LATE);
        let start = world.clock.now();
        client.delete::<ConfigMap>(&key("a")).await.unwrap();
        assert!(glance(&cluster).find::<ConfigMap>(&key("a")).await.unwrap().is_some());
        assert!(client.find::<ConfigMap>(&key("a")).await.unwrap().is_none());
        assert!((2.0..2.1).contains(&world.since(start)), "{}", world.since(start));
    });
}

#[test]
fn what_was_created_and_deleted_at_once_does_not_come_back() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        world.delay(LATE);
        client.create(&map("a", "1")).await.unwrap();
        client.delete::<ConfigMap>(&key("a")).await.unwrap();
        // The informer does not have it, which is not enough: its creation event is still to come.
        let start = world.clock.now();
        assert!(client.find::<ConfigMap>(&key("a")).await.unwrap().is_none());
        assert!(world.since(start) > 3.9, "{}", world.since(start));
        world.clock.sleep(LATE * 2).await;
        assert!(glance(&cluster).find::<ConfigMap>(&key("a")).await.unwrap().is_none());
    });
}

#[test]
fn an_object_that_took_a_deleted_ones_name_is_read() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        let first = client.create(&map("a", "1")).await.unwrap();
        client.get::<ConfigMap>(&key("a")).await.unwrap();
        world.delay(LATE);
        client.delete_object(&first).await.unwrap();
        let second = client.create(&map("a", "2")).await.unwrap();
        assert_ne!(first.metadata.uid, second.metadata.uid);
        let read = client.get::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!((value(&read), &read.metadata.uid), ("2", &second.metadata.uid));
    });
}

#[test]
fn an_object_that_leaves_the_selection_is_gone_under_a_late_watch() {
    World::run(|world| async move {
        let cluster = selected(&world).await;
        let client = cluster.client();
        client.create(&labelled("a", "web")).await.unwrap();
        client.get::<ConfigMap>(&key("a")).await.unwrap();
        world.delay(LATE);
        let start = world.clock.now();
        client.update(&labelled("a", "other")).await.unwrap();
        assert!(client.find::<ConfigMap>(&key("a")).await.unwrap().is_none());
        assert!((2.0..2.1).contains(&world.since(start)), "{}", world.since(start));
        // It can come back as well.
        client.update(&labelled("a", "web")).await.unwrap();
        assert!(client.find::<ConfigMap>(&key("a")).await.unwrap().is_some());
    });
}

#[test]
fn what_was_created_and_left_the_selection_at_once_is_not_read_in_between() {
    World::run(|world| async move {
        let cluster = selected(&world).await;
        let client = cluster.client();
        world.delay(LATE);
        let start = world.clock.now();
        client.create(&labelled("a", "web")).await.unwrap();
        client.update(&labelled("a", "other")).await.unwrap();
        assert!(client.find::<ConfigMap>(&key("a")).await.unwrap().is_none());
        assert!(world.since(start) > 3.9, "both events have come: {}", world.since(start));
    });
}

#[test]
fn a_write_outside_the_selection_is_not_waited_for() {
    World::run(|world| async move {
        let cluster = selected(&world).await;
        let client = cluster.client();
        world.hold();
        let start = world.clock.now();
        client.create(&labelled("a", "other")).await.unwrap();
        client.update(&labelled("a", "another")).await.unwrap();
        assert!(client.find::<ConfigMap>(&key("a")).await.unwrap().is_none());
        assert!(client.list::<ConfigMap>(&ListQuery::new()).await.unwrap().is_empty());
        assert!(world.since(start) < 0.1, "{}", world.since(start));
    });
}

#[test]
fn a_write_that_changes_nothing_is_not_waited_for() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        let object = client.create(&map("a", "1")).await.unwrap();
        client.get::<ConfigMap>(&key("a")).await.unwrap();
        world.hold();
        let start = world.clock.now();
        let same = client.update(&object).await.unwrap();
        assert_eq!(same.metadata.resource_version, object.metadata.resource_version);
        client.get::<ConfigMap>(&key("a")).await.unwrap();
        client.list::<ConfigMap>(&ListQuery::new()).await.unwrap();
        assert!(world.since(start) < 0.1, "{}", world.since(start));
    });
}

#[test]
fn after_the_deadline_the_server_is_asked_until_the_informer_has_caught_up() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        world.hold();
        let start = world.clock.now();
        client.create(&map("a", "1")).await.unwrap();
        world.asked();
        assert_eq!(value(&client.get::<ConfigMap>(&key("a")).await.unwrap()), "1");
        assert!((5.0..5.1).contains(&world.since(start)), "{}", world.since(start));
        assert_eq!(world.asked(), ["get configmaps a"]);
        // The next read does not wait again.
        assert_eq!(value(&client.get::<ConfigMap>(&key("a")).await.unwrap()), "1");
        assert_eq!(
            client.list::<ConfigMap>(&ListQuery::new().in_namespace("default")).await.unwrap().len(),
            1
        );
        assert!(world.since(start) < 5.1, "{}", world.since(start));
        assert_eq!(
            world.asked(),
            ["get configmaps a", "get configmaps a"],
            "no list is needed for one object"
        );
        // Other objects are not affected.
        assert!(client.find::<ConfigMap>(&key("b")).await.unwrap().is_none());
        assert!(world.asked().is_empty());
        world.release();
        world.clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(value(&client.get::<ConfigMap>(&key("a")).await.unwrap()), "1");
        assert!(world.asked().is_empty(), "it comes from the cache again");
    });
}

#[test]
fn the_deadline_is_an_option() {
    World::run(|world| async move {
        let options =
            |client: bowline_runtime::ClientBuilder| client.read_your_writes_timeout(Duration::from_secs(1));
        let cluster = world.cached(|builder| builder.client(options)).await;
        world.hold();
        let start = world.clock.now();
        cluster.client().create(&map("a", "1")).await.unwrap();
        cluster.client().get::<ConfigMap>(&key("a")).await.unwrap();
        assert!((1.0..1.1).contains(&world.since(start)), "{}", world.since(start));
    });
}

#[test]
fn a_list_has_all_that_was_written() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        client.create(&map("old", "1")).await.unwrap();
        world.delay(Duration::from_millis(300));
        for name in ["a", "b", "c"] {
            client.create(&map(name, "1")).await.unwrap();
        }
        client.delete::<ConfigMap>(&key("old")).await.unwrap();
        let all = client.list::<ConfigMap>(&ListQuery::new()).await.unwrap();
        assert_eq!(all.iter().map(|object| object.name_any()).collect::<Vec<_>>(), ["a", "b", "c"]);
    });
}

#[test]
fn a_list_of_another_namespace_waits_for_nothing() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        world.hold();
        client.create(&map("a", "1")).await.unwrap();
        let start = world.clock.now();
        assert!(client.list::<ConfigMap>(&ListQuery::new().in_namespace("other")).await.unwrap().is_empty());
        assert!(world.since(start) < 0.1, "{}", world.since(start));
    });
}

#[test]
fn a_late_list_finds_by_index_what_the_server_has() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        let kind = Kind::<ConfigMap>::typed();
        cluster.cache().add_index(&kind, "value", |object| vec![value(object).to_owned()]).unwrap();
        client.create(&map("a", "x")).await.unwrap();
        client.list::<ConfigMap>(&ListQuery::new()).await.unwrap();
        world.hold();
        client.create(&map("b", "x")).await.unwrap();
        client.create(&map("c", "y")).await.unwrap();
        let found = client.list::<ConfigMap>(&ListQuery::new().index("value", "x")).await.unwrap();
        assert_eq!(found.iter().map(|object| object.name_any()).collect::<Vec<_>>(), ["a", "b"]);
        let one = client.list::<ConfigMap>(&ListQuery::new().index("value", "x").limit(1)).await.unwrap();
        assert_eq!(one.len(), 1);
    });
}

#[test]
fn a_name_that_the_server_made_is_read() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        world.delay(LATE);
        let mut object = map("", "1");
        object.metadata.name = None;
        object.metadata.generate_name = Some("made-".to_owned());
        let created = client.create(&object).await.unwrap();
        assert!(created.name_any().starts_with("made-"), "{}", created.name_any());
        client.get::<ConfigMap>(&key(&created.name_any())).await.unwrap();
    });
}

#[test]
fn an_object_that_a_finalizer_keeps_is_read_as_it_ends() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        let mut object = map("a", "1");
        object.metadata.finalizers = Some(vec!["example.com/keep".to_owned()]);
        client.create(&object).await.unwrap();
        client.get::<ConfigMap>(&key("a")).await.unwrap();
        world.delay(LATE);
        let kept = client.delete::<ConfigMap>(&key("a")).await.unwrap().expect("it is kept");
        assert!(kept.metadata.deletion_timestamp.is_some());
        let mut read = (*client.get::<ConfigMap>(&key("a")).await.unwrap()).clone();
        assert!(read.metadata.deletion_timestamp.is_some());
        // Without its finalizer it ends, and the response still contains it.
        read.metadata.finalizers = None;
        let start = world.clock.now();
        client.update(&read).await.unwrap();
        assert!(client.find::<ConfigMap>(&key("a")).await.unwrap().is_none());
        assert!(world.since(start) < 2.1, "{}", world.since(start));
    });
}

#[test]
fn a_pod_is_read_as_it_ends_and_then_not_at_all() {
    World::run(|world| async move {
        let cluster = world.cluster(ClusterBuilder::cached::<Pod>);
        let (client, key) = (cluster.client(), key("p"));
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"namespace": "default", "name": "p"},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        }))
        .unwrap();
        client.create(&pod).await.unwrap();
        client.get::<Pod>(&key).await.unwrap();
        world.delay(LATE);
        client.delete::<Pod>(&key).await.unwrap();
        assert!(client.get::<Pod>(&key).await.unwrap().metadata.deletion_timestamp.is_some());
        let start = world.clock.now();
        client.delete::<Pod>(&key).grace_period(Duration::ZERO).await.unwrap();
        assert!(client.find::<Pod>(&key).await.unwrap().is_none());
        assert!(world.since(start) < 4.1, "no deadline was met: {}", world.since(start));
    });
}

#[test]
fn a_namespace_is_read_as_it_ends() {
    World::run(|world| async move {
        let cluster = world.cluster(ClusterBuilder::cached::<Namespace>);
        let (client, key) = (cluster.client(), bowline_cache::ObjectKey::cluster_scoped("web"));
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some("web".to_owned());
        client.create(&namespace).await.unwrap();
        client.get::<Namespace>(&key).await.unwrap();
        world.delay(LATE);
        let start = world.clock.now();
        client.delete::<Namespace>(&key).await.unwrap();
        let read = client.find::<Namespace>(&key).await.unwrap();
        assert!(read.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some()));
        assert!(world.since(start) < 4.1, "{}", world.since(start));
    });
}

#[test]
fn a_late_read_has_only_what_is_selected() {
    World::run(|world| async move {
        let cluster = selected(&world).await;
        let client = cluster.client();
        client.create(&labelled("a", "web")).await.unwrap();
        client.create(&labelled("b", "other")).await.unwrap();
        client.get::<ConfigMap>(&key("a")).await.unwrap();
        world.hold();
        client.update(&labelled("a", "other")).await.unwrap();
        client.create(&labelled("c", "web")).await.unwrap();
        let all = client.list::<ConfigMap>(&ListQuery::new()).await.unwrap();
        assert_eq!(all.iter().map(|object| object.name_any()).collect::<Vec<_>>(), ["c"]);
        assert!(client.find::<ConfigMap>(&key("a")).await.unwrap().is_none());
        assert!(client.find::<ConfigMap>(&key("c")).await.unwrap().is_some());
    });
}

#[test]
fn the_deletion_of_many_is_seen_by_a_list() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        for (name, label) in [("a", "x"), ("b", "x"), ("c", "y")] {
            client.create(&labelled(name, label)).await.unwrap();
        }
        let mut kept = labelled("d", "x");
        kept.metadata.finalizers = Some(vec!["example.com/keep".to_owned()]);
        client.create(&kept).await.unwrap();
        client.list::<ConfigMap>(&ListQuery::new()).await.unwrap();
        world.delay(Duration::from_millis(500));
        let query = ListQuery::new().in_namespace("default").labels("app=x".parse_selector());
        client.delete_all_of::<ConfigMap>(&query).await.unwrap();
        world.asked();
        let left = client.list::<ConfigMap>(&ListQuery::new()).await.unwrap();
        assert_eq!(left.iter().map(|object| object.name_any()).collect::<Vec<_>>(), ["c", "d"]);
        assert!(left[1].metadata.deletion_timestamp.is_some());
        assert!(world.asked().is_empty(), "it came from the cache");
        // Objects that were already ending are unchanged, and need no wait.
        let start = world.clock.now();
        client.delete_all_of::<ConfigMap>(&query).await.unwrap();
        assert_eq!(client.list::<ConfigMap>(&ListQuery::new()).await.unwrap().len(), 2);
        assert!(world.since(start) < 0.1, "{}", world.since(start));
    });
}

trait ParseSelector {
    fn parse_selector(&self) -> bowline_machinery::LabelSelector;
}

impl ParseSelector for str {
    fn parse_selector(&self) -> bowline_machinery::LabelSelector {
        bowline_machinery::LabelSelector::parse(self).expect("a selector")
    }
}

#[test]
fn a_dry_run_is_not_waited_for() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        client.create(&map("b", "1")).await.unwrap();
        client.get::<ConfigMap>(&key("b")).await.unwrap();
        world.hold();
        let start = world.clock.now();
        client.dry_run().create(&map("a", "1")).await.unwrap();
        assert!(client.find::<ConfigMap>(&key("a")).await.unwrap().is_none());
        client.dry_run().update(&map("b", "2")).await.unwrap();
        client.dry_run().delete::<ConfigMap>(&key("b")).await.unwrap();
        assert_eq!(value(&client.get::<ConfigMap>(&key("b")).await.unwrap()), "1");
        assert!(world.since(start) < 0.1, "{}", world.since(start));
    });
}

fn deployment(name: &str) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": name},
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
fn a_status_and_a_scale_that_were_written_are_read() {
    World::run(|world| async move {
        let cluster = world.cluster(ClusterBuilder::cached::<Deployment>);
        let client = cluster.client();
        let mut object = client.create(&deployment("a")).await.unwrap();
        client.get::<Deployment>(&key("a")).await.unwrap();
        world.delay(LATE);
        object.status.get_or_insert_default().replicas = Some(7);
        client.status().update(&object).await.unwrap();
        let read = client.get::<Deployment>(&key("a")).await.unwrap();
        assert_eq!(read.status.as_ref().and_then(|status| status.replicas), Some(7));
        client.set_replicas::<Deployment>(&key("a"), 3).await.unwrap();
        let read = client.get::<Deployment>(&key("a")).await.unwrap();
        assert_eq!(read.spec.as_ref().and_then(|spec| spec.replicas), Some(3));
    });
}

#[test]
fn a_write_in_one_form_holds_for_reads_in_another() {
    World::run(|world| async move {
        let metadata = Kind::<PartialObjectMeta<ConfigMap>>::metadata();
        let cluster = world.cached(|builder| builder.cached_kind(metadata.clone())).await;
        let client = cluster.client();
        let names = client.for_kind(&metadata);
        names.list(&ListQuery::new()).await.unwrap();
        world.delay(LATE);
        client.create(&map("a", "1")).await.unwrap();
        client.get::<ConfigMap>(&key("a")).await.unwrap();
        // One informer having it does not mean that the other does: here both have it, there one after the other.
        names.get(&key("a")).await.unwrap();
        let patch = Patch::merge(&json!({"metadata": {"labels": {"app": "web"}}})).unwrap();
        names.patch(&key("a"), &patch).await.unwrap();
        let read = client.get::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!(read.labels()["app"], "web");
        assert_eq!(names.get(&key("a")).await.unwrap().labels()["app"], "web");
    });
}

#[test]
fn an_informer_that_lost_its_watch_has_what_was_written_when_it_is_back() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        client.create(&map("old", "1")).await.unwrap();
        client.get::<ConfigMap>(&key("old")).await.unwrap();
        world.asked();
        world.cut(2);
        client.create(&map("a", "1")).await.unwrap();
        client.delete::<ConfigMap>(&key("old")).await.unwrap();
        client.get::<ConfigMap>(&key("a")).await.unwrap();
        assert!(client.find::<ConfigMap>(&key("old")).await.unwrap().is_none());
        let asked = world.asked();
        assert!(asked.iter().filter(|asked| *asked == "watch configmaps").count() >= 2, "{asked:?}");
        assert!(!asked.iter().any(|asked| asked.starts_with("get configmaps")), "{asked:?}");
    });
}

#[test]
fn an_informer_that_stopped_is_not_waited_for() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        world.hold();
        client.create(&map("a", "1")).await.unwrap();
        let start = world.clock.now();
        cluster.cache().stop().await;
        assert_eq!(value(&client.get::<ConfigMap>(&key("a")).await.unwrap()), "1");
        assert!(world.since(start) < 0.1, "{}", world.since(start));
        world.release();
        cluster.cache().start();
        assert_eq!(value(&client.get::<ConfigMap>(&key("a")).await.unwrap()), "1");
    });
}

#[test]
fn an_informer_that_was_removed_makes_place_for_one_that_has_everything() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        world.hold();
        client.create(&map("a", "1")).await.unwrap();
        assert!(cluster.cache().remove_informer(&Kind::<ConfigMap>::typed()).await);
        world.release();
        world.asked();
        assert_eq!(value(&client.get::<ConfigMap>(&key("a")).await.unwrap()), "1");
        assert!(!world.asked().contains(&"get configmaps a".to_owned()));
    });
}

#[test]
fn a_conflict_is_followed_by_a_read_of_what_it_was_about() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        client.create(&map("a", "1")).await.unwrap();
        let read = client.get::<ConfigMap>(&key("a")).await.unwrap();
        world.delay(LATE);
        // Another client writes it.
        let other = bowline_runtime::Client::builder(world.kube.clone()).clock(world.clock.clone()).build();
        other.update(&map("a", "2")).await.unwrap();
        let mut mine = (*read).clone();
        mine.data = map("a", "3").data;
        assert!(client.update(&mine).await.unwrap_err().is_conflict());
        assert_eq!(value(&client.get::<ConfigMap>(&key("a")).await.unwrap()), "2");
    });
}

#[test]
fn many_writers_at_once_each_read_what_they_wrote() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        world.delay(Duration::from_millis(7));
        let scope = world.clock.scope("writers");
        let writers: Vec<_> = (0..20)
            .map(|writer| {
                let client = cluster.client().clone();
                scope.spawn("writer", async move {
                    let name = format!("a{}", writer % 4);
                    for round in 0..10 {
                        let own = format!("{writer}-{round}");
                        let patch = Patch::merge(&json!({"data": {own.clone(): "x"}})).unwrap();
                        let written: ConfigMap = match client.patch(&key(&name), &patch).await {
                            Ok(written) => written,
                            Err(error) if error.is_not_found() => {
                                let _ = client.create(&map(&name, "1")).await;
                                client.patch(&key(&name), &patch).await.unwrap()
                            }
                            Err(error) => panic!("{error}"),
                        };
                        let read = client.get::<ConfigMap>(&key(&name)).await.unwrap();
                        assert!(read.data.as_ref().unwrap().contains_key(&own), "{own} is not there yet");
                        let versions = [&read.metadata, &written.metadata]
                            .map(|meta| meta.resource_version.as_ref().unwrap().parse::<u64>().unwrap());
                        assert!(versions[0] >= versions[1]);
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        assert!(
            !world.asked().iter().any(|asked| asked.starts_with("get configmaps")),
            "the cache was enough"
        );
    });
}

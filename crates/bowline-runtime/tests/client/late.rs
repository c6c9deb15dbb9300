//! Requests of reads when the cache is behind: as few as possible.

use std::time::Duration;

use bowline_apiserver::Verb;
use bowline_cache::{CacheOptions, Kind, KindOptions, ListQuery, SelectionSettings};
use bowline_runtime::{Client, ClusterBuilder, Patch};
use futures::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::world::{World, key, labelled, map, value};

fn everything() -> ListQuery {
    ListQuery::new().in_namespace("default")
}

fn generated() -> ConfigMap {
    let mut object = map("", "1");
    object.metadata.name = None;
    object.metadata.generate_name = Some("made-".to_owned());
    object
}

async fn names(client: &Client, query: &ListQuery) -> Vec<String> {
    let all = client.list::<ConfigMap>(query).await.expect("a list");
    all.iter().map(|object| object.name_any()).collect()
}

#[test]
fn one_unknown_object_costs_a_list_one_get() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        let kind = Kind::<ConfigMap>::typed();
        cluster.cache().add_index(&kind, "value", |object| vec![value(object).to_owned()]).unwrap();
        for name in ["a", "b", "c"] {
            client.create(&map(name, "1")).await.unwrap();
        }
        assert_eq!(names(client, &everything()).await, ["a", "b", "c"]);
        world.hold();
        world.faults.writes().lose_response();
        client.update(&map("b", "2")).await.unwrap_err();
        world.asked();
        let all = client.list::<ConfigMap>(&everything()).await.unwrap();
        assert_eq!(all.iter().map(|object| value(object)).collect::<Vec<_>>(), ["1", "2", "1"]);
        assert_eq!(world.asked(), ["get configmaps b"]);
        assert_eq!(names(client, &everything().index("value", "2")).await, ["b"]);
        assert_eq!(names(client, &everything().index("value", "1").limit(2)).await, ["a", "c"]);
        client.delete::<ConfigMap>(&key("b")).await.unwrap_err();
        assert_eq!(names(client, &everything()).await, ["a", "c"]);
        assert!(!world.asked().contains(&"list configmaps".to_owned()));
    });
}

#[test]
fn many_unknown_objects_cost_one_list() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        world.hold();
        world.faults.writes().lose_response();
        for number in 10..30 {
            client.create(&map(&format!("a{number}"), "1")).await.unwrap_err();
        }
        world.asked();
        assert_eq!(names(client, &everything()).await.len(), 20);
        assert_eq!(world.asked(), ["list configmaps"]);
        // When they must have ended, one more list ends it, and the cache is waited for.
        world.clock.sleep(Duration::from_secs(61)).await;
        assert_eq!(names(client, &everything()).await.len(), 20);
        assert_eq!(world.asked(), ["list configmaps"]);
        world.release();
        assert_eq!(names(client, &everything()).await.len(), 20);
        assert_eq!(world.asked(), [""; 0]);
    });
}

#[test]
fn an_object_whose_name_is_lost_is_listed() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        world.hold();
        world.faults.writes().lose_response();
        client.create(&generated()).await.unwrap_err();
        world.asked();
        let found = names(client, &everything()).await;
        assert_eq!(found.len(), 1);
        assert_eq!(names(client, &ListQuery::new()).await, found);
        assert_eq!(world.asked(), ["list configmaps"; 2]);
        client.get::<ConfigMap>(&key(&found[0])).await.unwrap();
        assert_eq!(world.asked(), [format!("get configmaps {}", found[0])]);
        // Other namespaces are not affected.
        assert!(names(client, &ListQuery::new().in_namespace("other")).await.is_empty());
        assert_eq!(world.asked(), [""; 0]);
        // When it must have ended, the version of the collection is asked for once, and waited for.
        world.clock.sleep(Duration::from_secs(61)).await;
        world.addresses();
        let start = world.clock.now();
        assert_eq!(names(client, &everything()).await, found);
        assert!((5.0..5.1).contains(&world.since(start)), "{}", world.since(start));
        let addresses = world.addresses();
        assert!(addresses[0].ends_with("/configmaps?limit=1"), "{addresses:?}");
        assert!(addresses[1].contains("resourceVersionMatch=NotOlderThan"), "{addresses:?}");
        assert_eq!(addresses.len(), 2);
        world.release();
        world.clock.sleep(Duration::from_secs(70)).await;
        world.asked();
        assert_eq!(names(client, &everything()).await, found);
        assert_eq!(world.asked(), [""; 0], "it is in the cache");
    });
}

#[test]
fn a_deletion_of_many_that_fails_is_looked_for_on_the_server() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        client.create(&map("a", "1")).await.unwrap();
        assert_eq!(names(client, &everything()).await, ["a"]);
        world.hold();
        world.faults.writes().lose_response();
        client.delete_all_of::<ConfigMap>(&everything()).await.unwrap_err();
        assert!(names(client, &everything()).await.is_empty());
        assert!(client.find::<ConfigMap>(&key("a")).await.unwrap().is_none());
    });
}

#[test]
fn a_write_that_fails_in_the_server_may_be_done() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        world.hold();
        world.faults.writes().before_response().internal_error();
        let error = client.create(&map("a", "1")).await.unwrap_err();
        assert_eq!(error.code(), Some(500));
        client.get::<ConfigMap>(&key("a")).await.unwrap();
        client.delete_all_of::<ConfigMap>(&everything()).await.unwrap_err();
        assert!(names(client, &everything()).await.is_empty());
    });
}

#[test]
fn concurrent_late_lists_share_their_requests() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        world.hold();
        world.faults.writes().lose_response();
        client.create(&generated()).await.unwrap_err();
        world.asked();
        let web = everything().labels(bowline_machinery::LabelSelector::parse("app=web").unwrap());
        let query = everything();
        let all =
            join_all((0..20).map(|number| names(client, if number < 10 { &query } else { &web }))).await;
        assert!(all[..10].iter().all(|names| names.len() == 1) && all[10..].iter().all(Vec::is_empty));
        // One that was under way already, and one for all others.
        assert_eq!(world.asked(), ["list configmaps"; 2]);
        // An error is that of all.
        world.faults.on(Verb::List).times(2).internal_error();
        let all = join_all((0..20).map(|_| client.list::<ConfigMap>(&query))).await;
        for failed in all {
            let error = failed.unwrap_err();
            assert_eq!(error.code(), Some(500), "{error}");
        }
        // One that is left by its reader does not hold the others up.
        let left = client.list::<ConfigMap>(&query);
        drop(futures::future::select(Box::pin(left), std::future::ready(())).await);
        assert_eq!(names(client, &query).await.len(), 1);
    });
}

#[test]
fn a_late_list_is_paged_and_not_older_than_what_was_written() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        let mut last = String::new();
        world.hold();
        for number in 0..600 {
            last = client.create(&map(&format!("a{number}"), "1")).await.unwrap().resource_version().unwrap();
        }
        world.addresses();
        assert_eq!(names(client, &everything()).await.len(), 600);
        let addresses = world.addresses();
        let first = format!("?limit=500&resourceVersion={last}&resourceVersionMatch=NotOlderThan");
        assert!(addresses[0].ends_with(&first), "{addresses:?}");
        assert!(addresses[1].contains("?limit=500&continue="), "{addresses:?}");
        assert_eq!(addresses.len(), 2);
    });
}

#[test]
fn writes_beyond_the_bound_are_read_too() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        world.delay(Duration::from_millis(1));
        world.hold();
        for number in 0..1100 {
            client.create(&map(&format!("a{number}"), "1")).await.unwrap();
        }
        world.asked();
        client.get::<ConfigMap>(&key("a0")).await.unwrap();
        assert_eq!(world.asked(), ["get configmaps a0"]);
        world.release();
        // The cache has it from some time on.
        world.clock.sleep(Duration::from_secs(2)).await;
        client.get::<ConfigMap>(&key("a0")).await.unwrap();
        assert_eq!(names(client, &everything()).await.len(), 1100);
        assert_eq!(world.asked(), [""; 0]);
    });
}

#[test]
fn an_eviction_and_a_binding_never_cost_a_list() {
    World::run(|world| async move {
        let cluster = world.cluster(ClusterBuilder::cached::<Pod>);
        let client = cluster.client();
        for name in ["bound", "evicted"] {
            let pod: Pod = serde_json::from_value(json!({
                "metadata": {"namespace": "default", "name": name},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }))
            .unwrap();
            client.create(&pod).await.unwrap();
            client.get::<Pod>(&key(name)).await.unwrap();
        }
        world.hold();
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"namespace": "default", "name": "bound"},
            "target": {"kind": "Node", "name": "n"},
        });
        let pods = client.typed::<Pod>();
        pods.create_subresource::<Value>(&key("bound"), "binding", &binding).await.unwrap();
        client.evict(&key("evicted")).await.unwrap();
        world.asked();
        let all = client.list::<Pod>(&everything()).await.unwrap();
        let nodes: Vec<_> = all.iter().map(|pod| pod.spec.as_ref().unwrap().node_name.as_deref()).collect();
        assert_eq!(nodes[0], Some("n"));
        assert!(all.get(1).is_none_or(|pod| pod.metadata.deletion_timestamp.is_some()));
        assert_eq!(world.asked(), ["get pods bound", "get pods evicted"]);
        // The server has done both, so that one answer is enough, and the cache is waited for.
        world.release();
        client.list::<Pod>(&everything()).await.unwrap();
        client.get::<Pod>(&key("bound")).await.unwrap();
        assert_eq!(world.asked(), [""; 0]);
    });
}

#[test]
fn many_evictions_cost_one_get_each_and_no_list() {
    World::run(|world| async move {
        let cluster = world.cluster(ClusterBuilder::cached::<Pod>);
        let client = cluster.client();
        let name = |index: usize| format!("p{index:02}");
        for index in 0..20 {
            let pod: Pod = serde_json::from_value(json!({
                "metadata": {"namespace": "default", "name": name(index)},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }))
            .unwrap();
            client.create(&pod).await.unwrap();
            client.get::<Pod>(&key(&name(index))).await.unwrap();
        }
        world.hold();
        for index in 0..20 {
            client.evict(&key(&name(index))).await.unwrap();
        }
        world.asked();
        client.list::<Pod>(&everything()).await.unwrap();
        let mut asked = world.asked();
        asked.sort();
        assert_eq!(asked, (0..20).map(|index| format!("get pods {}", name(index))).collect::<Vec<_>>());
    });
}

#[test]
fn an_unknown_object_is_read_as_it_is_selected() {
    World::run(|world| async move {
        let kind =
            KindOptions::new(Kind::<ConfigMap>::typed()).settings(SelectionSettings::new().labels("app=web"));
        let cluster = world.cached(|builder| builder.cache(CacheOptions::new().kind(kind))).await;
        let client = cluster.client();
        for name in ["a", "b"] {
            client.create(&labelled(name, "web")).await.unwrap();
        }
        assert_eq!(names(client, &everything()).await, ["a", "b"]);
        world.hold();
        world.faults.writes().lose_response();
        client.update(&labelled("a", "other")).await.unwrap_err();
        world.asked();
        assert_eq!(names(client, &everything()).await, ["b"]);
        assert_eq!(world.asked(), ["get configmaps a"]);
        world.clock.sleep(Duration::from_secs(61)).await;
        assert!(client.find::<ConfigMap>(&key("a")).await.unwrap().is_none());
        world.release();
        assert_eq!(names(client, &everything()).await, ["b"]);
    });
}

#[test]
fn an_object_of_which_fields_are_selected_is_asked_for_by_its_name() {
    World::run(|world| async move {
        let kind = KindOptions::new(Kind::<Pod>::typed())
            .settings(SelectionSettings::new().fields("spec.nodeName=n"));
        let cluster = world.cluster(|builder| builder.cached::<Pod>().cache(CacheOptions::new().kind(kind)));
        let client = cluster.client();
        for (name, node) in [("here", "n"), ("there", "m")] {
            let pod: Pod = serde_json::from_value(json!({
                "metadata": {"namespace": "default", "name": name},
                "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
            }))
            .unwrap();
            client.create(&pod).await.unwrap();
        }
        assert!(client.find::<Pod>(&key("here")).await.unwrap().is_some());
        world.hold();
        world.faults.writes().lose_response();
        let patch = Patch::merge(&json!({"metadata": {"labels": {"app": "web"}}})).unwrap();
        for name in ["here", "there"] {
            client.patch::<Pod>(&key(name), &patch).await.unwrap_err();
        }
        world.addresses();
        let all = client.list::<Pod>(&everything()).await.unwrap();
        assert_eq!(
            all.iter().map(|pod| (pod.name_any(), pod.labels().len())).collect::<Vec<_>>(),
            [("here".to_owned(), 1)]
        );
        let addresses = world.addresses();
        assert_eq!(addresses.len(), 2, "{addresses:?}");
        for (address, name) in addresses.iter().zip(["here", "there"]) {
            assert!(address.ends_with(&format!("=spec.nodeName%3Dn%2Cmetadata.name%3D{name}")), "{address}");
        }
        // It ends as it does for others.
        world.clock.sleep(Duration::from_secs(61)).await;
        assert!(client.find::<Pod>(&key("there")).await.unwrap().is_none());
        assert_eq!(client.get::<Pod>(&key("here")).await.unwrap().labels().len(), 1);
        world.release();
        assert_eq!(client.list::<Pod>(&everything()).await.unwrap().len(), 1);
        world.addresses();
        assert_eq!(client.list::<Pod>(&everything()).await.unwrap().len(), 1);
        assert_eq!(world.addresses(), [""; 0]);
    });
}

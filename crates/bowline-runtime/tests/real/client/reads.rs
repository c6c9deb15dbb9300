//! Reads from the cache and from the server; both include the client's own writes.

use std::sync::Arc;

use bowline_cache::{CacheOptions, Kind, KindOptions, ListQuery, SelectionSettings};
use bowline_machinery::FieldSelector;
use bowline_runtime::{ClientError, ClusterBuilder, Patch};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;

use super::world::{World, labels, names, value};

#[test]
fn declared_kinds_are_read_from_the_cache_and_others_live() {
    World::run(|world| async move {
        let cluster =
            world.cluster(|builder| builder.cached::<ConfigMap>().cached::<Secret>().uncached::<Secret>());
        let (client, key) = (cluster.client(), world.key("a"));
        client.create(&world.map("a", "1")).await.unwrap();
        let one = client.get::<ConfigMap>(&key).await.unwrap();
        assert!(Arc::ptr_eq(&one, &client.get::<ConfigMap>(&key).await.unwrap()), "the cache's own");
        let live = client.live().get::<ConfigMap>(&key).await.unwrap();
        assert!(!Arc::ptr_eq(&one, &live));
        assert_eq!(value(&live), "1");
        let mut secret = Secret::default();
        secret.metadata.name = Some("s".to_owned());
        client.namespaced(&*world.namespace).create(&secret).await.unwrap();
        let one = client.get::<Secret>(&world.key("s")).await.unwrap();
        assert!(!Arc::ptr_eq(&one, &client.get::<Secret>(&world.key("s")).await.unwrap()), "asked for anew");
        assert!(!client.is_cached(&Kind::<Secret>::typed()));
        let missing = client.get::<ConfigMap>(&world.key("nobody")).await.unwrap_err();
        let asked = client.live().get::<ConfigMap>(&world.key("nobody")).await.unwrap_err();
        assert!(missing.is_not_found() && asked.is_not_found());
        assert_eq!(missing.to_string(), asked.to_string(), "both say the same");
    });
}

#[test]
fn lists_select_by_labels_fields_and_indexes() {
    World::run(|world| async move {
        let cluster = world.cluster(ClusterBuilder::cached::<ConfigMap>);
        let client = cluster.client();
        let kind = Kind::<ConfigMap>::typed();
        cluster.cache().add_index(&kind, "value", |map| vec![value(map).to_owned()]).unwrap();
        for (name, label) in [("a", "x"), ("b", "x"), ("c", "y")] {
            client.create(&world.labelled(name, label)).await.unwrap();
        }
        client.create(&world.map("d", "2")).await.unwrap();
        let here = || ListQuery::new().in_namespace(&world.namespace);
        for client in [client.clone(), client.live()] {
            let list = async |query: ListQuery| names(&client.list::<ConfigMap>(&query).await.unwrap());
            assert_eq!(list(here().labels(labels("app=x"))).await, ["a", "b"]);
            assert_eq!(list(here().labels(labels("app in (x,y),app!=x"))).await, ["c"]);
            assert_eq!(list(here().labels(labels("app")).limit(1)).await, ["a"]);
        }
        let by_index = here().index("value", "2");
        assert_eq!(names(&client.list::<ConfigMap>(&by_index).await.unwrap()), ["d"]);
        let error = client.live().list::<ConfigMap>(&by_index).await.unwrap_err();
        assert!(matches!(error, ClientError::Invalid { .. }), "{error}");
        let by_field = here().fields(FieldSelector::parse("metadata.name=b").unwrap());
        assert_eq!(names(&client.live().list::<ConfigMap>(&by_field).await.unwrap()), ["b"]);
        let error = client.list::<ConfigMap>(&by_field).await.unwrap_err();
        assert!(matches!(error, ClientError::Cache { .. }), "{error}");
        let elsewhere = client.list::<ConfigMap>(&ListQuery::new().in_namespace("kube-system")).await;
        assert!(matches!(elsewhere, Err(ClientError::Cache { .. })), "it is not cached");
    });
}

#[test]
fn what_was_written_is_read_at_once_again_and_again() {
    World::run(|world| async move {
        let cluster = world.cluster(ClusterBuilder::cached::<ConfigMap>);
        let client = cluster.client();
        let all = ListQuery::new().labels(labels("app"));
        for round in 0..30 {
            let (name, key) = ("a", world.key("a"));
            let created = client.create(&world.labelled(name, "x")).await.unwrap();
            let read = client.get::<ConfigMap>(&key).await.unwrap();
            assert_eq!(read.metadata.uid, created.metadata.uid, "round {round}");
            assert_eq!(client.list::<ConfigMap>(&all).await.unwrap().len(), 1);
            let mut changed = (*read).clone();
            changed.data = world.map(name, &round.to_string()).data;
            client.update(&changed).await.unwrap();
            assert_eq!(value(&client.get::<ConfigMap>(&key).await.unwrap()), round.to_string());
            let patch = Patch::merge(&json!({"metadata": {"finalizers": ["example.com/keep"]}})).unwrap();
            client.patch::<ConfigMap>(&key, &patch).await.unwrap();
            if round % 2 == 0 {
                client.delete::<ConfigMap>(&key).await.unwrap();
            } else {
                let mine = ListQuery::new().in_namespace(&world.namespace).labels(labels("app=x"));
                client.delete_all_of::<ConfigMap>(&mine).await.unwrap();
            }
            let ending = client.get::<ConfigMap>(&key).await.unwrap();
            assert!(ending.metadata.deletion_timestamp.is_some(), "round {round}");
            let free = Patch::merge(&json!({"metadata": {"finalizers": null}})).unwrap();
            client.patch::<ConfigMap>(&key, &free).await.unwrap();
            assert!(client.find::<ConfigMap>(&key).await.unwrap().is_none(), "round {round}");
            assert!(client.list::<ConfigMap>(&all).await.unwrap().is_empty());
        }
    });
}

#[test]
fn what_leaves_the_selection_is_gone_at_once() {
    World::run(|world| async move {
        let kind =
            KindOptions::new(Kind::<ConfigMap>::typed()).settings(SelectionSettings::new().labels("app=web"));
        let options =
            CacheOptions::new().namespaces([(world.namespace.as_str(), SelectionSettings::new())]).kind(kind);
        let cluster = world.cluster(|builder| builder.cache(options).cached::<ConfigMap>());
        let (client, key) = (cluster.client(), world.key("a"));
        client.create(&world.labelled("a", "web")).await.unwrap();
        let start = world.clock.now();
        for _ in 0..10 {
            client.update(&world.labelled("a", "other")).await.unwrap();
            assert!(client.find::<ConfigMap>(&key).await.unwrap().is_none());
            client.update(&world.labelled("a", "another")).await.unwrap();
            assert!(client.find::<ConfigMap>(&key).await.unwrap().is_none());
            client.update(&world.labelled("a", "web")).await.unwrap();
            assert!(client.find::<ConfigMap>(&key).await.unwrap().is_some());
        }
        assert!(world.clock.now().duration_since(start).as_secs() < 5, "no deadline was met");
    });
}

#[test]
fn the_server_says_when_it_does_not_know_a_kind() {
    World::run(|world| async move {
        let resource = kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
            "nowhere.example.com",
            "v1",
            "Nothing",
        ));
        let nothing = world.client().for_kind(&Kind::dynamic(resource, true));
        let error = nothing.find(&world.key("a")).await.unwrap_err();
        assert_eq!(error.code(), Some(404), "no object is something else than no kind");
    });
}

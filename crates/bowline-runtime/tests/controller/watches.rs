//! Watches of controllers: sources, handlers, predicates, and watches that are added and removed later.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_cache::{Kind, ObjectKey};
use bowline_runtime::predicate::{
    Predicate, annotations_changed, generation_changed, labels_changed, not, selected,
};
use bowline_runtime::source::SendError;
use bowline_runtime::{
    Action, Change, ChangeKind, Cluster, Context, Controller, ControllerBuilder, Error, Request, Watch,
    handler, source,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::world::{Notes, World, noting};

/// A ready controller that records its runs.
async fn written_down<K: 'static>(builder: ControllerBuilder<K>) -> (Controller, Notes) {
    let notes = Notes::default();
    let written = notes.clone();
    let controller = builder
        .build(move |context: Context, request: Request| {
            written.write(&context, &request);
            async { Ok::<_, Error>(Action::done()) }
        })
        .expect("it can be built");
    controller.start().expect("it can be started");
    controller.wait_ready().await.expect("it is ready");
    (controller, notes)
}

fn owner(name: &str, is_controller: bool) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": format!("uid-{name}"), "controller": is_controller})
}

async fn create_secret(world: &World, name: &str) {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    let secrets = Api::<Secret>::default_namespaced(world.client.clone());
    secrets.create(&PostParams::default(), &secret).await.expect("created");
}

#[test]
fn the_owner_of_a_packed_object_reads_it_whole() {
    World::run(1, |world| async move {
        let uid = world.create_map(&json!({"metadata": {"name": "parent"}})).await.metadata.uid;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let runs = seen.clone();
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .owns_with(Kind::packed::<Secret>(), |watch| watch)
            .build(move |context: Context, map: Arc<ConfigMap>| {
                let runs = runs.clone();
                async move {
                    let child = context.client().find::<Secret>(&ObjectKey::new("default", "child")).await?;
                    let text = child.and_then(|child| child.data.clone()).unwrap_or_default();
                    let values: Vec<_> = text.into_values().map(|value| value.0).collect();
                    runs.lock().expect("nobody panics").push((map.name_any(), values.concat()));
                    Ok::<_, Error>(Action::done())
                }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.settle().await;
        let owner = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": uid, "controller": true,
        });
        let child = json!({
            "metadata": {"name": "child", "ownerReferences": [owner]}, "stringData": {"a": "one"},
        });
        let secrets = Api::<Secret>::default_namespaced(world.client.clone());
        let child: Secret = serde_json::from_value(child).unwrap();
        secrets.create(&PostParams::default(), &child).await.unwrap();
        world.settle().await;
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        let expected =
            [("parent", ""), ("parent", "one")].map(|(name, value)| (name.to_owned(), value.into()));
        assert_eq!(seen, expected);
    });
}

#[test]
fn the_old_owner_and_the_new_one_are_reconciled_when_an_object_changes_hands() {
    World::run(1, |world| async move {
        world
            .create_map(&json!({"metadata": {"name": "child", "ownerReferences": [owner("old", true)]}}))
            .await;
        let watch = Watch::new(source::kind::<ConfigMap>(), handler::owner::<ConfigMap>());
        let (_controller, notes) =
            written_down(Controller::builder(&world.cluster).named("owners").watches(watch)).await;
        world.settle().await;
        assert_eq!(notes.requests(), ["default/old"]);
        let references = [owner("plain", false), owner("new", true)];
        world.patch("child", &json!({"metadata": {"ownerReferences": references}})).await;
        world.settle().await;
        assert_eq!(notes.requests()[1..], ["default/old", "default/new"]);
        assert_eq!(notes.triggers()[1..], ["ConfigMap default/child updated"; 2]);
        world.delete("child").await;
        world.settle().await;
        assert_eq!(notes.requests()[3..], ["default/new"]);
    });
}

#[test]
fn owners_are_matched_by_group_and_kind_and_all_of_them_if_asked_for() {
    World::run(2, |world| async move {
        let references = [
            owner("controller", true),
            owner("plain", false),
            json!({"apiVersion": "apps/v1", "kind": "ConfigMap", "name": "other-group", "uid": "1"}),
            json!({"apiVersion": "v1", "kind": "Secret", "name": "other-kind", "uid": "2"}),
        ];
        world.create_map(&json!({"metadata": {"name": "child", "ownerReferences": references}})).await;
        let any = Watch::new(source::kind::<ConfigMap>(), handler::owner::<ConfigMap>().any());
        let (_controller, notes) =
            written_down(Controller::builder(&world.cluster).named("any").watches(any)).await;
        let kind = Kind::<ConfigMap>::typed();
        let one = Watch::new(source::kind::<ConfigMap>(), handler::owner_of(&kind));
        let (_second, only) =
            written_down(Controller::builder(&world.cluster).named("one").watches(one)).await;
        // A cluster-scoped owner gives a request without a namespace.
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "name": "space", "uid": "3"});
        let cluster_wide = Watch::new(source::kind::<ConfigMap>(), handler::owner::<Namespace>().any());
        let (_third, wide) =
            written_down(Controller::builder(&world.cluster).named("wide").watches(cluster_wide)).await;
        world.create_map(&json!({"metadata": {"name": "tenant", "ownerReferences": [space]}})).await;
        world.settle().await;
        assert_eq!(notes.requests(), ["default/controller", "default/plain"]);
        assert_eq!(only.requests(), ["default/controller"]);
        assert_eq!(wide.requests(), ["space"]);
    });
}

#[test]
fn a_deletion_that_was_missed_is_told_with_the_object_as_it_last_was() {
    World::run(3, |world| async move {
        world
            .create_map(&json!({"metadata": {"name": "child", "ownerReferences": [owner("parent", true)]}}))
            .await;
        let builder = world.cluster.controller::<ConfigMap>().owns::<ConfigMap>();
        let (_controller, notes) = written_down(builder).await;
        world.settle().await;
        let client = world.cluster.client();
        assert!(client.is_cached(&Kind::<ConfigMap>::typed()), "what is watched is read from the cache");
        assert!(!client.is_cached(&Kind::<Secret>::typed()));
        world.cluster.stop().await;
        world.delete("child").await;
        world.server.compact();
        world.cluster.start();
        world.until("both are reconciled", || notes.len() == 4).await;
        let mut lines: Vec<_> = std::iter::zip(notes.requests(), notes.triggers()).skip(2).collect();
        lines.sort();
        assert_eq!(lines[0], ("default/child".to_owned(), "ConfigMap deleted".to_owned()));
        assert_eq!(lines[1], ("default/parent".to_owned(), "ConfigMap default/child deleted".to_owned()));
    });
}

#[test]
fn a_map_function_is_called_for_the_old_object_and_the_new_and_each_request_counts_once() {
    World::run(4, |world| async move {
        world.create_map(&json!({"metadata": {"name": "config"}, "data": {"site": "one"}})).await;
        let sites = handler::map(|map: &ConfigMap| {
            let site = map.data.as_ref().and_then(|data| data.get("site")).cloned();
            let all = [site, Some("always".to_owned())];
            all.into_iter().flatten().map(|site| Request::new("default", &site)).collect::<Vec<_>>()
        });
        let watch = Watch::new(source::kind::<ConfigMap>(), sites);
        let (_controller, notes) =
            written_down(Controller::builder(&world.cluster).named("sites").watches(watch)).await;
        world.settle().await;
        assert_eq!(notes.requests(), ["default/one", "default/always"]);
        world.patch("config", &json!({"data": {"site": "two"}})).await;
        world.settle().await;
        assert_eq!(notes.requests()[2..], ["default/one", "default/always", "default/two"]);
    });
}

#[test]
fn a_late_watch_shows_what_there_is_and_a_removed_one_shows_nothing_more() {
    World::run(5, |world| async move {
        create_secret(&world, "before").await;
        let (controller, notes) = noting(&world).await;
        let watch = controller.watch(Watch::new(source::kind::<Secret>(), handler::object())).unwrap();
        watch.wait_synced().await;
        world.settle().await;
        assert_eq!(notes.triggers(), ["Secret initial"]);
        create_secret(&world, "during").await;
        world.settle().await;
        assert_eq!(notes.triggers()[1..], ["Secret created"]);
        watch.unregister().await;
        create_secret(&world, "after").await;
        world.settle().await;
        assert_eq!(notes.len(), 2, "nothing comes from a watch that was removed");
        assert_eq!(world.cluster.cache().stats().len(), 1, "its informer has ended");
        // The others go on, also after a stop and a start.
        let _ = controller.stop().await.unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.settle().await;
        assert_eq!(notes.triggers()[2..], ["ConfigMap created"]);
    });
}

#[test]
fn a_kind_that_nobody_watches_any_more_is_read_from_the_server() {
    World::run(21, |world| async move {
        create_secret(&world, "a").await;
        let (controller, _notes) = noting(&world).await;
        let client = world.cluster.client();
        let key = bowline_cache::ObjectKey::new("default", "a");
        let secrets = Kind::<Secret>::typed();
        let watches = [(); 2].map(|()| {
            controller.watch(Watch::new(source::kind::<Secret>(), handler::object())).expect("it can begin")
        });
        for watch in watches {
            watch.wait_synced().await;
            assert!(client.is_cached(&secrets), "one watch of the two is there");
            client.get::<Secret>(&key).await.unwrap();
            watch.unregister().await;
        }
        assert!(!client.is_cached(&secrets));
        world.settle().await;
        assert_eq!(world.cluster.cache().stats().len(), 1, "its informer has ended");
        client.get::<Secret>(&key).await.unwrap();
        assert_eq!(world.cluster.cache().stats().len(), 1, "and no other has begun");
    });
}

#[test]
fn a_watch_that_is_added_before_the_start_begins_with_it() {
    World::run(6, |world| async move {
        create_secret(&world, "a").await;
        let (controller, notes) = noting(&world).await;
        let _ = controller.stop().await.unwrap();
        let _watch = controller.watch(Watch::new(source::kind::<Secret>(), handler::object())).unwrap();
        world.settle().await;
        assert_eq!(notes.len(), 0);
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.settle().await;
        assert_eq!(notes.triggers(), ["Secret initial"]);
    });
}

#[test]
fn a_late_watch_of_a_forbidden_kind_is_in_nobodys_way() {
    World::run(7, |world| async move {
        world.forbid("secrets");
        let (controller, notes) = noting(&world).await;
        let watch = controller.watch(Watch::new(source::kind::<Secret>(), handler::object())).unwrap();
        world.create("a").await;
        world.settle().await;
        assert_eq!(notes.requests(), ["default/a"]);
        assert_eq!(controller.waiting_for()[0].source(), "Secret");
        watch.unregister().await;
        assert!(controller.waiting_for().is_empty());
    });
}

#[test]
fn what_a_channel_carries_is_reconciled_until_it_is_closed() {
    World::run(8, |world| async move {
        let (sender, source) = source::channel::<ConfigMap>("webhook");
        let builder = world.cluster.controller::<ConfigMap>();
        let (controller, notes) = written_down(builder.watches(Watch::new(source, handler::object()))).await;
        let mut map = ConfigMap::default();
        map.metadata.name = Some("pushed".to_owned());
        map.metadata.namespace = Some("default".to_owned());
        sender.send(map.clone()).await.unwrap();
        world.settle().await;
        assert_eq!(notes.triggers(), ["webhook generic"]);
        // Items that are sent while the controller is stopped wait.
        let _ = controller.stop().await.unwrap();
        sender.send(map.clone()).await.unwrap();
        controller.start().unwrap();
        world.settle().await;
        assert_eq!(notes.triggers()[1..], ["webhook generic"]);
        drop(sender);
        world.create("a").await;
        world.settle().await;
        assert_eq!(notes.triggers()[2..], ["ConfigMap created"], "a closed channel ends alone");
    });
}

#[test]
fn a_channel_is_full_at_its_capacity_and_closed_when_its_controller_is_gone() {
    World::run(9, |world| async move {
        let (sender, source) = source::channel::<ConfigMap>("webhook");
        for _ in 0..1024 {
            sender.try_send(ConfigMap::default()).unwrap();
        }
        assert_eq!(sender.try_send(ConfigMap::default()), Err(SendError::Full));
        let watch = Watch::new(source, handler::object());
        let builder = Controller::builder(&world.cluster).named("gone").watches(watch);
        let (controller, notes) = written_down(builder).await;
        world.settle().await;
        assert_eq!(notes.len(), 1, "all were read before the first run");
        let _ = controller.stop().await.unwrap();
        drop(controller);
        assert_eq!(sender.send(ConfigMap::default()).await, Err(SendError::Closed));
    });
}

#[test]
fn streams_and_functions_are_sources() {
    World::run(10, |world| async move {
        let map = world.create("a").await;
        let stream = source::stream("replay", futures::stream::iter([map.clone(), map.clone()]));
        let clock = world.clock.clone();
        let function = source::function("clockwork", move |mut sink: source::Sink<ConfigMap>| {
            let (clock, map) = (clock.clone(), map.clone());
            async move {
                clock.sleep(Duration::from_secs(1)).await;
                sink.object(&map).await;
                sink.request(Request::new("default", "by-name"));
            }
        });
        let builder = Controller::builder(&world.cluster)
            .named("sources")
            .watches(Watch::new(stream, handler::object()))
            .watches(Watch::new(function, handler::object()));
        let (_controller, notes) = written_down(builder).await;
        world.settle().await;
        assert_eq!(notes.triggers(), ["replay generic"]);
        world.clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(notes.triggers()[1..], ["clockwork generic", "clockwork generic"]);
        assert_eq!(notes.requests()[1..], ["default/a", "default/by-name"]);
    });
}

#[test]
fn a_function_may_ask_for_more_objects_at_once_than_the_queue_is_told_of() {
    const MANY: usize = 1100;
    World::run(12, |world| async move {
        let function = source::function("finder", |mut sink: source::Sink<ConfigMap>| async move {
            sink.requests((0..MANY).map(|number| Request::new("default", &format!("{number:04}"))));
        });
        let builder = Controller::builder(&world.cluster)
            .named("many")
            .watches(Watch::new(function, handler::object()));
        let (_controller, notes) = written_down(builder).await;
        world.settle().await;
        let expected: Vec<_> = (0..MANY).map(|number| format!("default/{number:04}")).collect();
        assert_eq!(notes.requests(), expected);
        assert!(notes.triggers().iter().all(|triggers| triggers == "finder generic"));
    });
}

#[test]
fn kinds_may_be_watched_dynamically_by_metadata_alone_or_on_another_cluster() {
    World::run(11, |world| async move {
        let resource = ApiResource::erase::<ConfigMap>(&());
        let dynamic = Kind::<DynamicObject>::dynamic(resource, true);
        let by_tree = Controller::builder(&world.cluster).named("dynamic").for_kind(dynamic);
        let names = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = names.clone();
        let by_tree = by_tree
            .build(move |_: Context, object: Arc<DynamicObject>| {
                seen.lock().unwrap().push(object.metadata.name.clone().unwrap());
                async { Ok::<_, Error>(Action::done()) }
            })
            .unwrap();
        by_tree.start().unwrap();
        let (_second, by_metadata) = written_down(
            Controller::builder(&world.cluster)
                .named("metadata")
                .watches(Watch::new(source::metadata::<ConfigMap>(), handler::object())),
        )
        .await;
        let other = Cluster::builder(&world.scope().spawner(), world.client.clone()).named("other");
        let other = other.build().unwrap();
        other.start();
        let (_third, elsewhere) = written_down(
            Controller::builder(&world.cluster)
                .named("elsewhere")
                .watches(Watch::new(source::kind::<Secret>().in_cluster(&other), handler::object())),
        )
        .await;
        world.create("a").await;
        create_secret(&world, "b").await;
        world.settle().await;
        assert_eq!(*names.lock().unwrap(), ["a"]);
        assert_eq!(by_metadata.triggers(), ["ConfigMap created"]);
        assert_eq!(elsewhere.triggers(), ["Secret@other created"]);
        assert_eq!(other.cache().stats().len(), 1, "the other cluster watches it");
    });
}

#[test]
fn only_what_predicates_accept_is_reconciled_of_one_watch_or_of_all() {
    World::run(12, |world| async move {
        let builder = world
            .cluster
            .controller::<ConfigMap>()
            .for_filter(labels_changed().or(annotations_changed()))
            .watches(Watch::new(source::kind::<Secret>(), handler::object()))
            .filter(|change: &Change<'_, _>| change.meta().name.as_deref() != Some("ignored"));
        let (_controller, notes) = written_down(builder).await;
        world.create("a").await;
        world.create("ignored").await;
        create_secret(&world, "ignored").await;
        world.settle().await;
        world.touch("a", "1").await;
        world.settle().await;
        assert_eq!(notes.triggers(), ["ConfigMap created"], "data are neither labels nor annotations");
        world.patch("a", &json!({"metadata": {"labels": {"tier": "web"}}})).await;
        world.settle().await;
        world.patch("a", &json!({"metadata": {"annotations": {"note": "x"}}})).await;
        world.settle().await;
        world.delete("a").await;
        world.settle().await;
        assert_eq!(
            notes.triggers()[1..],
            ["ConfigMap updated", "ConfigMap updated", "ConfigMap deleted"],
            "a deletion is never swallowed"
        );
    });
}

#[test]
fn an_object_that_a_selector_picks_no_more_is_shown_when_it_leaves() {
    World::run(13, |world| async move {
        let builder = world.cluster.controller::<ConfigMap>().filter(selected("tier=web").unwrap());
        let (_controller, notes) = written_down(builder).await;
        world.create("other").await;
        world.create_map(&json!({"metadata": {"name": "a", "labels": {"tier": "web"}}})).await;
        world.settle().await;
        world.patch("a", &json!({"metadata": {"labels": {"tier": "db"}}})).await;
        world.settle().await;
        world.touch("a", "1").await;
        world.settle().await;
        assert_eq!(notes.triggers(), ["ConfigMap created", "ConfigMap updated"]);
        assert_eq!(notes.requests(), ["default/a"; 2]);
    });
}

#[test]
fn a_generation_that_did_not_move_is_no_change_unless_the_kind_has_none() {
    let object = |generation: Option<i64>, version: &str| {
        let mut map = ConfigMap::default();
        map.metadata.generation = generation;
        map.metadata.resource_version = Some(version.to_owned());
        map
    };
    let accepts = |old: &ConfigMap, new: &ConfigMap| generation_changed().accepts(&Change::update(old, new));
    assert!(!accepts(&object(Some(1), "1"), &object(Some(1), "2")));
    assert!(accepts(&object(Some(1), "1"), &object(Some(2), "2")));
    assert!(accepts(&object(None, "1"), &object(None, "2")), "config maps have no generation");
    assert!(!accepts(&object(None, "1"), &object(None, "1")), "a resync is no change");
    let map = object(Some(1), "1");
    for change in [Change::create(&map), Change::delete(&map), Change::generic(&map)] {
        assert!(generation_changed().accepts(&change), "{:?}", change.kind());
        assert!(!not(generation_changed()).accepts(&change));
    }
    assert_eq!(Change::generic(&map).kind(), ChangeKind::Generic);
}

#[test]
fn a_resync_shows_every_object_once_more() {
    World::run(14, |world| async move {
        world.create("a").await;
        let watch =
            Watch::new(source::kind::<ConfigMap>().resync(Duration::from_secs(30)), handler::object());
        let (_controller, notes) =
            written_down(Controller::builder(&world.cluster).named("resync").watches(watch)).await;
        world.clock.sleep(Duration::from_secs(70)).await;
        assert_eq!(notes.triggers(), ["ConfigMap initial", "ConfigMap resynced", "ConfigMap resynced"]);
    });
}

//! One informer: its objects and events.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bowline_cache::{
    ByteStream, ClientListWatch, HandlerOptions, Kind, ListOptions, ListWatch, ListWatchError,
    ListWatchFuture, Namespaces, Selectors, SharedInformer, WatchOptions,
};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use serde_json::json;

use crate::arm::{Arm, PATIENCE, Witness, held, map, names, value};

#[test]
fn an_informer_has_the_servers_objects_and_delivers_changes() {
    Arm::run(|arm| async move {
        arm.create("a", "1").await;
        let informer = arm.informer();
        let (witness, registration) = Witness::of(&informer);
        assert!(!informer.has_synced());
        informer.start();
        assert!(registration.wait_synced().await);
        assert_eq!(witness.lines(), ["+a=1*"]);
        arm.create("b", "1").await;
        arm.update("a", "2").await;
        arm.delete("b").await;
        arm.until("all events arrive", || witness.count() == 4).await;
        assert_eq!(witness.lines(), ["+a=1*", "+b=1", "a=1>2", "-b=1"]);
        assert_eq!(held(&informer), arm.truth().await);
        assert_eq!(witness.view(), arm.truth().await);
    });
}

#[test]
fn a_deletion_has_the_final_state_and_version() {
    Arm::run(|arm| async move {
        let created = arm.create("a", "1").await;
        let informer = synced(arm.informer()).await;
        let mut events = informer.subscribe();
        let first = events.next().await.expect("the addition");
        assert_eq!(first.object().metadata.resource_version, created.metadata.resource_version);
        arm.delete("a").await;
        let deleted = events.next().await.expect("the deletion");
        assert!(deleted.is_delete());
        assert_eq!(deleted.object().metadata.uid, created.metadata.uid);
        assert_ne!(deleted.object().metadata.resource_version, created.metadata.resource_version);
    });
}

#[test]
fn a_late_handler_gets_the_existing_objects_and_then_changes() {
    Arm::run(|arm| async move {
        arm.create("a", "1").await;
        let informer = synced(arm.informer()).await;
        arm.create("b", "1").await;
        arm.until("b is held", || informer.indexer().len() == 2).await;
        let (witness, registration) = Witness::of(&informer);
        assert!(registration.wait_synced().await);
        assert_eq!(witness.lines(), ["+a=1*", "+b=1*"]);
        arm.update("b", "2").await;
        arm.until("the update arrives", || witness.count() == 3).await;
        assert_eq!(witness.lines()[2], "b=1>2");
        assert_eq!(arm.traffic.open("configmaps").len(), 1, "a handler needs no watch of its own");
    });
}

#[test]
fn a_removed_handler_gets_no_event() {
    Arm::run(|arm| async move {
        let informer = synced(arm.informer()).await;
        let (gone, registration) = Witness::of(&informer);
        let (stays, _registration) = Witness::of(&informer);
        arm.create("a", "1").await;
        arm.until("both handlers get the event", || gone.count() == 1 && stays.count() == 1).await;
        registration.unregister().await;
        arm.create("b", "1").await;
        arm.until("the other handler gets the event", || stays.count() == 2).await;
        assert_eq!(gone.lines(), ["+a=1"]);
    });
}

#[test]
fn an_object_that_leaves_the_selector_is_deleted_and_added_again() {
    Arm::run(|arm| async move {
        arm.create_labelled(&arm.namespace, "a", &[("app", "web")]).await;
        arm.create_labelled(&arm.namespace, "b", &[("app", "other")]).await;
        let selectors = Selectors::new().labels("app=web");
        let informer = SharedInformer::builder(&arm.spawner(), Kind::<ConfigMap>::typed())
            .selected(arm.client.clone(), arm.here(), selectors)
            .build()
            .expect("one source");
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        assert!(registration.wait_synced().await);
        arm.merge("a", json!({"metadata": {"labels": {"app": "other"}}})).await;
        arm.until("a is gone", || witness.count() == 2).await;
        arm.merge("b", json!({"metadata": {"labels": {"app": "web"}}})).await;
        arm.merge("a", json!({"metadata": {"labels": {"app": "web"}}})).await;
        arm.until("both came", || witness.count() == 4).await;
        assert_eq!(witness.lines(), ["+a=1*", "-a=1", "+b=1", "+a=1"]);
        assert_eq!(held(&informer), arm.truth().await);
    });
}

#[test]
fn an_informer_with_a_field_selector_has_the_matching_objects() {
    Arm::run(|arm| async move {
        arm.create("a", "1").await;
        arm.create("b", "1").await;
        let selectors = Selectors::new().fields("metadata.name=b");
        let informer = SharedInformer::builder(&arm.spawner(), Kind::<ConfigMap>::typed())
            .selected(arm.client.clone(), arm.here(), selectors)
            .build()
            .expect("one source");
        let informer = synced(informer).await;
        arm.delete("a").await;
        arm.update("b", "2").await;
        arm.until("the update is held", || informer.indexer().list().iter().any(|map| value(map) == "2"))
            .await;
        assert_eq!(names(&informer.indexer().list()), ["b"]);
    });
}

#[test]
fn an_informer_of_two_namespaces_has_both_and_no_other() {
    Arm::run(|arm| async move {
        let (second, third) = (arm.another_namespace().await, arm.another_namespace().await);
        arm.create("a", "1").await;
        arm.create_in(&second, "b", "1").await;
        arm.create_in(&third, "c", "1").await;
        let informer = SharedInformer::builder(&arm.spawner(), Kind::<ConfigMap>::typed())
            .selected(arm.client.clone(), arm.here(), Selectors::default())
            .selected(arm.client.clone(), Namespaces::One(second.clone()), Selectors::default())
            .build()
            .expect("two sources");
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        assert!(registration.wait_synced().await);
        arm.create_in(&third, "d", "1").await;
        arm.create_in(&second, "e", "1").await;
        arm.delete("a").await;
        arm.until("all events arrive", || witness.count() == 4).await;
        let mut lines = witness.lines();
        lines.sort();
        assert_eq!(lines, ["+a=1*", "+b=1*", "+e=1", "-a=1"]);
        assert_eq!(names(&informer.indexer().list_in(&second)), ["b", "e"]);
        assert_eq!(informer.indexer().len(), 2);
    });
}

#[test]
fn an_informer_of_all_but_some_namespaces_has_the_rest() {
    Arm::run(|arm| async move {
        let (second, third) = (arm.another_namespace().await, arm.another_namespace().await);
        let label = [("test", arm.namespace.as_str())];
        for (namespace, name) in [(&arm.namespace, "a"), (&second, "b"), (&third, "c")] {
            arm.create_labelled(namespace, name, &label).await;
        }
        let labels = format!("test={}", arm.namespace);
        let except = [arm.namespace.clone(), second.clone()].into_iter().collect();
        let selectors = Selectors::new().labels(labels);
        let informer = SharedInformer::builder(&arm.spawner(), Kind::<ConfigMap>::typed())
            .selected(arm.client.clone(), Namespaces::AllBut(except), selectors)
            .build()
            .expect("one source");
        let informer = synced(informer).await;
        arm.create_labelled(&second, "d", &label).await;
        arm.create_labelled(&third, "e", &label).await;
        arm.until("e is held", || informer.indexer().len() == 2).await;
        assert_eq!(names(&informer.indexer().list()), ["c", "e"]);
    });
}

#[test]
fn a_recreated_object_is_delivered_as_a_deletion_and_an_addition() {
    Arm::run(|arm| async move {
        arm.create("a", "1").await;
        let informer = synced(arm.informer()).await;
        let (witness, _registration) = Witness::of(&informer);
        arm.delete("a").await;
        arm.create("a", "2").await;
        arm.until("all events arrive", || witness.count() == 3).await;
        assert_eq!(witness.lines(), ["+a=1*", "-a=1", "+a=2"]);
        // The same during a stop.
        informer.stop().await;
        arm.delete("a").await;
        arm.create("a", "3").await;
        informer.start();
        arm.until("all events arrive", || witness.count() == 5).await;
        assert!(matches!(&witness.lines()[3..], [gone, came] if gone.starts_with("-a=2") && came == "+a=3"));
        assert_eq!(witness.view(), arm.truth().await);
    });
}

#[test]
fn a_handler_with_a_resync_gets_unchanged_objects_again() {
    Arm::run(|arm| async move {
        arm.create("a", "1").await;
        let informer = synced(arm.informer()).await;
        let (quiet, _quiet) = Witness::of(&informer);
        let options = HandlerOptions::default().resync(Duration::from_secs(1));
        let (again, _again) = Witness::with(&informer, options);
        arm.until("two resyncs arrive", || again.count() >= 3).await;
        assert_eq!(again.lines()[..3], ["+a=1*", "a=1>1", "a=1>1"]);
        assert_eq!(quiet.lines(), ["+a=1*"]);
        assert_eq!(arm.traffic.asked("configmaps").len(), 1, "a resync sends no request");
    });
}

#[test]
fn a_streaming_list_needs_one_request() {
    Arm::run(|arm| async move {
        for name in ["a", "b", "c", "d", "e"] {
            arm.create(name, "1").await;
        }
        let informer = synced(arm.informer()).await;
        assert_eq!(held(&informer), arm.truth().await);
        let asked = arm.traffic.asked("configmaps");
        // The last request is the test's own.
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert_eq!(asked[0].query["sendInitialEvents"], "true");
        assert_eq!(informer.stats().failures, 0);
    });
}

#[test]
fn without_streaming_lists_an_informer_lists_and_watches() {
    Arm::run(|arm| async move {
        arm.create("a", "1").await;
        let informer = SharedInformer::builder(&arm.spawner(), Kind::<ConfigMap>::typed())
            .selected(arm.client.clone(), arm.here(), Selectors::default())
            .streaming_lists(false)
            .build()
            .expect("one source");
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        assert!(registration.wait_synced().await);
        arm.update("a", "2").await;
        arm.delete("a").await;
        arm.until("all events arrive", || witness.count() == 3).await;
        let lines = witness.lines();
        // A real server answers this list from its watch cache, which may lack the object; the watch then delivers it.
        let is_late = Arm::is_real() && lines[0] == "+a=1";
        assert!(lines[0] == "+a=1*" || is_late, "{lines:?}");
        assert_eq!(lines[1..], ["a=1>2", "-a=2"]);
        let asked = arm.traffic.asked("configmaps");
        assert_eq!(asked[0].query["resourceVersion"], "0");
        assert!(!asked[0].is_watch() && asked[1].is_watch(), "{asked:?}");
        assert_eq!(informer.stats().failures, 0);
    });
}

#[test]
fn a_paged_list_is_complete() {
    Arm::run(|arm| async move {
        for name in ["a", "b", "c", "d", "e"] {
            arm.create(name, "1").await;
        }
        let list_watch = InPages(ClientListWatch::new(
            arm.client.clone(),
            &Kind::<ConfigMap>::typed(),
            Some(&arm.namespace),
            Selectors::default(),
        ));
        let informer = SharedInformer::builder(&arm.spawner(), Kind::<ConfigMap>::typed())
            .source(arm.here(), list_watch)
            .streaming_lists(false)
            .page_size(NonZeroU32::new(2).expect("it is not 0"))
            .build()
            .expect("one source");
        let (witness, _registration) = Witness::of(&informer);
        let informer = synced(informer).await;
        let pages = arm.traffic.asked("configmaps");
        let pages: Vec<_> = pages.iter().filter(|asked| asked.query.contains_key("limit")).collect();
        assert_eq!(pages.len(), 3, "{pages:?}");
        assert!(pages[1..].iter().all(|page| page.query.contains_key("continue")), "{pages:?}");
        assert_eq!(held(&informer), arm.truth().await);
        arm.update("c", "2").await;
        arm.until("the update arrives", || witness.count() == 6).await;
        assert_eq!(witness.view(), arm.truth().await);
    });
}

/// A fake server without the old versions, so that lists are paged.
struct InPages(ClientListWatch);

impl ListWatch for InPages {
    fn list<'a>(&'a self, options: &'a ListOptions) -> ListWatchFuture<'a, ByteStream> {
        if options.resource_version.is_some() {
            let mut status = kube::core::Status::failure("too old", "Expired");
            status.code = 410;
            return Box::pin(async move { Err(ListWatchError::Status(Box::new(status))) });
        }
        self.0.list(options)
    }

    fn watch<'a>(&'a self, options: &'a WatchOptions) -> ListWatchFuture<'a, ByteStream> {
        self.0.watch(options)
    }
}

#[test]
fn a_preloaded_object_that_is_gone_is_delivered_as_a_tombstone() {
    Arm::run(|arm| async move {
        arm.create("there", "1").await;
        let informer = arm.informer();
        let mut gone = map("gone", "old");
        gone.metadata.namespace = Some(arm.namespace.clone());
        informer.indexer().add(gone);
        let (witness, _registration) = Witness::of(&informer);
        let informer = synced(informer).await;
        arm.until("all events arrive", || witness.count() == 3).await;
        assert_eq!(witness.lines(), ["+gone=old*", "-gone=old?", "+there=1*"]);
        assert_eq!(held(&informer), arm.truth().await);
    });
}

#[test]
fn a_restarted_informer_delivers_missed_changes() {
    Arm::run(|arm| async move {
        for name in ["changes", "goes", "stays"] {
            arm.create(name, "1").await;
        }
        let informer = synced(arm.informer()).await;
        let (witness, registration) = Witness::of(&informer);
        assert!(registration.wait_synced().await);
        informer.stop().await;
        arm.until("its watch is closed", || arm.traffic.open("configmaps").is_empty()).await;
        arm.update("changes", "2").await;
        arm.delete("goes").await;
        arm.create("comes", "1").await;
        assert_eq!(witness.count(), 3, "a stopped informer tells nothing");
        informer.start();
        arm.until("all events arrive", || witness.count() == 6).await;
        assert_eq!(witness.lines_after(3), ["+comes=1", "-goes=1", "changes=1>2"]);
        assert_eq!(witness.view(), arm.truth().await);
        arm.update("stays", "2").await;
        arm.until("it continues", || witness.count() == 7).await;
    });
}

#[test]
fn five_thousand_objects_are_cached_with_any_list_method() {
    const COUNT: usize = 5000;
    Arm::run(|arm| async move {
        let create = |number: usize| {
            let (maps, object) = (arm.maps(), map(&format!("map-{number:04}"), &number.to_string()));
            async move { maps.create(&PostParams::default(), &object).await.expect("created") }
        };
        let created = futures::stream::iter(0..COUNT).map(create).buffer_unordered(32);
        created.for_each(|_| std::future::ready(())).await;
        let truth = arm.truth().await;
        assert_eq!(truth.len(), COUNT);
        for streaming in [true, false] {
            let informer = SharedInformer::builder(&arm.spawner(), Kind::<ConfigMap>::typed())
                .selected(arm.client.clone(), arm.here(), Selectors::default())
                .streaming_lists(streaming)
                .build()
                .expect("one source");
            let (witness, registration) = Witness::of(&informer);
            informer.start();
            assert!(registration.wait_synced().await);
            assert!(held(&informer) == truth, "streaming: {streaming}");
            assert!(witness.view() == truth, "streaming: {streaming}");
        }
    });
}

#[test]
fn the_version_of_an_informer_is_at_least_that_of_its_objects() {
    Arm::run(|arm| async move {
        let informer = synced(arm.informer()).await;
        let number = |version: Option<String>| version.and_then(|version| version.parse::<u64>().ok());
        let before = number(informer.last_sync_resource_version()).expect("a number");
        let created = number(arm.create("a", "1").await.metadata.resource_version).expect("a number");
        assert!(before < created);
        arm.until("a is held", || informer.indexer().len() == 1).await;
        let after = number(informer.last_sync_resource_version()).expect("a number");
        assert!(after >= created, "{after} is at least {created}");
    });
}

async fn synced<K>(informer: SharedInformer<K>) -> SharedInformer<K>
where
    K: kube::Resource + Send + Sync + 'static,
{
    informer.start();
    informer.wait_for_sync(PATIENCE).await.expect("in sync");
    informer
}

#[test]
fn objects_are_shared_with_readers() {
    Arm::run(|arm| async move {
        arm.create("a", "1").await;
        let informer = synced(arm.informer()).await;
        let lister = informer.lister().namespace(&arm.namespace);
        let (one, other) = (lister.get("a").expect("it is there"), lister.get("a").expect("it is there"));
        assert!(Arc::ptr_eq(&one, &other));
    });
}

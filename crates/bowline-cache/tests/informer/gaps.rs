//! Watches that end early, on a real server's history: no event is lost or delivered twice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::Verb;
use bowline_apiserver::faults::{Events, RequestFilter, Rule};
use bowline_cache::{Event, SharedInformer};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;

use crate::world::{Witness, World, held, refuse, value};

/// Ends the watch at the first event of this object.
async fn resumes_at_its_version(world: World, end: fn(RequestFilter<Events>) -> Rule) {
    world.create("a", "1").await;
    let informer = world.synced().await;
    let (witness, _registration) = Witness::of(&informer);
    let ended = end(world.faults.events().name("b").times(1));
    world.create("b", "1").await;
    world.update("a", "2").await;
    world.delete("b").await;
    world.until("all events arrive", || witness.count() == 4).await;
    world.clock.sleep(Duration::from_secs(60)).await;
    assert_eq!(witness.lines(), ["+a=1*", "+b=1", "a=1>2", "-b=1"]);
    assert_eq!(informer.stats().lists, 1);
    assert_eq!(world.asked(Verb::List), 0);
    ended.assert_used();
}

#[test]
fn a_disconnected_watch_resumes_at_its_version() {
    World::run(2, |world| resumes_at_its_version(world, RequestFilter::<Events>::cut));
}

#[test]
fn a_closed_watch_resumes_at_its_version() {
    World::run(3, |world| resumes_at_its_version(world, RequestFilter::<Events>::close));
}

#[test]
fn a_watch_that_is_cut_between_events_resumes_at_its_version() {
    World::run(4, |world| async move {
        world.create("a", "1").await;
        let informer = world.synced().await;
        let (witness, _registration) = Witness::of(&informer);
        world.faults.events().event_type("BOOKMARK").times(2).cut();
        world.clock.sleep(Duration::from_secs(200)).await;
        assert_eq!(informer.stats().failures, 2);
        world.update("a", "2").await;
        world.until("the event arrives", || witness.count() == 2).await;
        assert_eq!(witness.lines(), ["+a=1*", "a=1>2"]);
        assert_eq!(informer.stats().lists, 1);
    });
}

#[test]
fn a_connection_with_a_dead_peer_times_out() {
    World::run(5, |world| async move {
        world.create("a", "1").await;
        let informer = world.synced().await;
        let (witness, _registration) = Witness::of(&informer);
        world.forget();
        world.faults.watches().silence();
        world.update("a", "2").await;
        world.clock.sleep(Duration::from_secs(300)).await;
        assert_eq!(world.asked(Verb::Watch), 0, "a quiet watch does not time out early");
        world.clock.sleep(Duration::from_secs(340)).await;
        assert!(world.asked(Verb::Watch) >= 1, "it asks again by itself");
        assert_eq!(held(&informer).len(), 1);
        world.faults.remove_all();
        world.settled(&informer).await;
        assert_eq!(witness.lines(), ["+a=1*", "a=1>2"]);
        assert_eq!(informer.stats().lists, 1);
    });
}

#[test]
fn a_stalled_list_times_out_with_an_error() {
    World::run(6, |world| async move {
        world.create("a", "1").await;
        world.faults.watches().silence();
        let informer = world.informer();
        informer.start();
        let error = informer.wait_for_sync(Duration::from_secs(61)).await.unwrap_err();
        assert!(error.to_string().contains("no data received for 60s"), "{error}");
        world.faults.remove_all();
        informer.wait_for_sync(Duration::from_secs(120)).await.unwrap();
        assert_eq!(held(&informer), world.truth().await);
    });
}

#[test]
fn skipped_events_are_found_by_the_next_list() {
    World::run(7, |world| async move {
        world.create("gone", "1").await;
        world.create("old", "1").await;
        let informer = world.synced().await;
        let (witness, registration) = Witness::of(&informer);
        assert!(registration.wait_synced().await);
        witness.forget();
        for event_type in ["ADDED", "MODIFIED", "DELETED"] {
            world.faults.events().event_type(event_type).lose();
        }
        world.delete("gone").await;
        world.update("old", "2").await;
        world.create("new", "1").await;
        world.clock.sleep(Duration::from_secs(100)).await;
        assert_eq!(witness.count(), 0);
        world.faults.remove_all();
        world.relist(&informer).await;
        world.settled(&informer).await;
        assert_eq!(witness.lines(), ["-gone=1?", "+new=1", "old=1>2"]);
        assert_eq!(witness.view(), world.truth().await);
    });
}

/// Objects for [`happen`].
async fn changes(world: &World) {
    for name in ["deleted", "recreated", "changed", "same"] {
        world.create(name, "1").await;
    }
}

async fn happen(world: &World) {
    world.delete("deleted").await;
    world.delete("recreated").await;
    world.create("recreated", "2").await;
    world.update("changed", "2").await;
    world.create("fleeting", "1").await;
    world.delete("fleeting").await;
    world.create("created", "1").await;
}

#[test]
fn a_gap_within_the_history_loses_no_event() {
    World::run(8, |world| async move {
        changes(&world).await;
        let informer = world.synced().await;
        let (witness, registration) = Witness::of(&informer);
        assert!(registration.wait_synced().await);
        witness.forget();
        world.gap().await;
        happen(&world).await;
        world.clock.sleep(Duration::from_secs(30)).await;
        world.faults.remove_all();
        world.settled(&informer).await;
        assert_eq!(
            witness.lines(),
            [
                "-deleted=1",
                "-recreated=1",
                "+recreated=2",
                "changed=1>2",
                "+fleeting=1",
                "-fleeting=1",
                "+created=1"
            ]
        );
        assert_eq!(informer.stats().lists, 1);
    });
}

async fn a_gap_beyond_history(world: World, streaming: bool) {
    changes(&world).await;
    let informer = world.informer_with(|builder| builder.streaming_lists(streaming));
    informer.start();
    let (witness, registration) = Witness::of(&informer);
    assert!(registration.wait_synced().await);
    witness.forget();
    world.gap().await;
    happen(&world).await;
    world.server.compact();
    world.clock.sleep(Duration::from_secs(30)).await;
    assert_eq!(witness.count(), 0);
    world.faults.remove_all();
    world.settled(&informer).await;
    let lines = witness.lines();
    let (deletions, others) = lines.split_at(2);
    assert_eq!(
        deletions,
        ["-recreated=1?", "-deleted=1?"],
        "deletions come first, with the last known state"
    );
    assert_eq!(others, ["changed=1>2", "+created=1", "+recreated=2"]);
    assert_eq!(witness.view(), world.truth().await);
    assert_eq!((informer.stats().lists, informer.stats().relists), (2, 1));
}

#[test]
fn a_gap_beyond_the_history_is_delivered_as_tombstones_and_additions() {
    World::run(9, |world| a_gap_beyond_history(world, true));
    World::run(9, |world| a_gap_beyond_history(world, false));
}

#[test]
fn a_busy_or_failing_server_causes_no_relist() {
    for (code, reason) in [(429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable")] {
        World::run(10, |world| async move {
            world.create("a", "1").await;
            let informer = world.synced().await;
            world.gap().await;
            world.faults.remove_all();
            world.faults.on(Verb::Watch).fail(refuse(code, reason, "not now"));
            world.clock.sleep(Duration::from_secs(100)).await;
            assert!(world.asked(Verb::Watch) > 3);
            world.update("a", "2").await;
            world.faults.remove_all();
            world.forget();
            world
                .until("the event arrives", || informer.indexer().list().iter().all(|a| value(a) == "2"))
                .await;
            assert_eq!(informer.stats().lists, 1, "after {code}");
            assert_eq!((world.asked(Verb::List), world.asked(Verb::Watch)), (0, 1));
        });
    }
}

/// The objects that a handler finds in the indexer at each event.
type Found = Arc<Mutex<Vec<Vec<String>>>>;

fn look(informer: &SharedInformer<ConfigMap>) -> Found {
    let found = Found::default();
    let (seen, indexer) = (found.clone(), informer.indexer().clone());
    informer.add_handler(move |_: &Event<ConfigMap>| {
        seen.lock()
            .expect("the lock is not poisoned")
            .push(indexer.list().iter().map(|object| object.name_any()).collect());
    });
    found
}

#[test]
fn readers_see_the_state_before_or_after_a_relist() {
    World::run(11, |world| async move {
        for number in 0..40 {
            world.create(&format!("old-{number}"), "1").await;
        }
        let informer = world.synced().await;
        let found = look(&informer);
        world.until("all events arrive", || found.lock().unwrap().len() == 40).await;
        found.lock().unwrap().clear();
        world.gap().await;
        for number in 0..40 {
            world.delete(&format!("old-{number}")).await;
            world.create(&format!("new-{number}"), "1").await;
        }
        world.server.compact();
        world.faults.remove_all();
        world.settled(&informer).await;
        world.until("all events arrive", || found.lock().unwrap().len() == 80).await;
        for found in &*found.lock().unwrap() {
            assert_eq!(found.len(), 40);
            assert!(found.iter().all(|name| name.starts_with("new")), "{found:?}");
        }
    });
}

#[test]
fn a_relist_without_changes_delivers_and_decodes_nothing() {
    World::run(12, |world| async move {
        for number in 0..20 {
            world.create(&number.to_string(), "1").await;
        }
        let decoded = Arc::new(AtomicUsize::new(0));
        let count = decoded.clone();
        let informer = world.informer_with(|builder| {
            builder.transform(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            })
        });
        informer.start();
        let (witness, registration) = Witness::of(&informer);
        assert!(registration.wait_synced().await);
        let before = informer.indexer().list();
        let many = before.len();
        assert_eq!(decoded.load(Ordering::Relaxed), many);
        world.relist(&informer).await;
        world.clock.sleep(Duration::from_secs(1)).await;
        let after = informer.indexer().list();
        assert!(before.iter().zip(&after).all(|(before, after)| Arc::ptr_eq(before, after)));
        assert_eq!((witness.count(), decoded.load(Ordering::Relaxed)), (many, many));
        world.update("7", "2").await;
        world.relist(&informer).await;
        world.settled(&informer).await;
        assert_eq!(decoded.load(Ordering::Relaxed), many + 1, "a version is transformed once");
    });
}

#[test]
fn a_deletion_that_the_watch_repeats_is_delivered_once() {
    World::run(13, |world| async move {
        world.create("a", "1").await;
        let informer = world.synced().await;
        let (witness, _registration) = Witness::of(&informer);
        // Cut repeatedly, after the deletion.
        world.faults.events().name("b").times(4).cut();
        world.delete("a").await;
        world.create("b", "1").await;
        world.until("all events arrive", || witness.view().contains_key("default/b")).await;
        world.settled(&informer).await;
        assert_eq!(witness.lines(), ["+a=1*", "-a=1", "+b=1"]);
    });
}

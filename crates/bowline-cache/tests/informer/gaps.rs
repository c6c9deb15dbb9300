//! Watches that end where they should not, on a real server's history: nothing is lost and nothing is told twice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::{FrameVerdict, Verb};
use bowline_cache::{Event, SharedInformer};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;

use crate::world::{Witness, World, held, refuse, value};

/// At the first frame of this object the watch is ended.
fn end_once(world: &World, name: &'static str, verdict: FrameVerdict) {
    let mut is_done = false;
    world.faults.on_frame(move |frame| {
        let now = frame.name == name && !std::mem::replace(&mut is_done, true);
        now.then_some(verdict)
    });
}

async fn goes_on_where_it_was(world: World, verdict: FrameVerdict) {
    world.create("a", "1").await;
    let informer = world.synced().await;
    let (witness, _registration) = Witness::of(&informer);
    end_once(&world, "b", verdict);
    world.create("b", "1").await;
    world.update("a", "2").await;
    world.delete("b").await;
    world.until("all is told", || witness.count() == 4).await;
    world.clock.sleep(Duration::from_secs(60)).await;
    assert_eq!(witness.told(), ["+a=1*", "+b=1", "a=1>2", "-b=1"]);
    assert_eq!(informer.stats().lists, 1);
    assert_eq!(world.faults.count(Verb::List), 0);
}

#[test]
fn a_watch_that_is_cut_goes_on_where_it_was() {
    World::run(2, |world| goes_on_where_it_was(world, FrameVerdict::Disconnect));
}

#[test]
fn a_watch_that_is_closed_goes_on_where_it_was() {
    World::run(3, |world| goes_on_where_it_was(world, FrameVerdict::Close));
}

#[test]
fn a_watch_that_is_cut_between_events_goes_on_where_it_was() {
    World::run(4, |world| async move {
        world.create("a", "1").await;
        let informer = world.synced().await;
        let (witness, _registration) = Witness::of(&informer);
        let mut cuts = 0;
        world.faults.on_frame(move |frame| {
            cuts += usize::from(frame.event == "BOOKMARK");
            (frame.event == "BOOKMARK" && cuts <= 2).then_some(FrameVerdict::Disconnect)
        });
        world.clock.sleep(Duration::from_secs(200)).await;
        assert_eq!(informer.stats().failures, 2);
        world.update("a", "2").await;
        world.until("it is told", || witness.count() == 2).await;
        assert_eq!(witness.told(), ["+a=1*", "a=1>2"]);
        assert_eq!(informer.stats().lists, 1);
    });
}

#[test]
fn a_connection_whose_other_end_is_gone_is_given_up() {
    World::run(5, |world| async move {
        world.create("a", "1").await;
        let informer = world.synced().await;
        let (witness, _registration) = Witness::of(&informer);
        world.faults.forget();
        world.faults.stall();
        world.update("a", "2").await;
        world.clock.sleep(Duration::from_secs(300)).await;
        assert_eq!(world.faults.count(Verb::Watch), 0, "a quiet watch is not given up early");
        world.clock.sleep(Duration::from_secs(340)).await;
        assert!(world.faults.count(Verb::Watch) >= 1, "it asks again by itself");
        assert_eq!(held(&informer).len(), 1);
        world.faults.heal();
        world.settled(&informer).await;
        assert_eq!(witness.told(), ["+a=1*", "a=1>2"]);
        assert_eq!(informer.stats().lists, 1);
    });
}

#[test]
fn a_list_that_goes_silent_is_given_up_and_says_so() {
    World::run(6, |world| async move {
        world.create("a", "1").await;
        world.faults.stall();
        let informer = world.informer();
        informer.start();
        let error = informer.wait_for_sync(Duration::from_secs(61)).await.unwrap_err();
        assert!(error.to_string().contains("nothing came for 60s"), "{error}");
        world.faults.heal();
        informer.wait_for_sync(Duration::from_secs(120)).await.unwrap();
        assert_eq!(held(&informer), world.truth().await);
    });
}

#[test]
fn what_was_lost_without_a_trace_is_found_by_the_next_list() {
    World::run(7, |world| async move {
        world.create("gone", "1").await;
        world.create("old", "1").await;
        let informer = world.synced().await;
        let (witness, registration) = Witness::of(&informer);
        assert!(registration.synced().await);
        witness.forget();
        world.faults.on_frame(|frame| (!frame.name.is_empty()).then_some(FrameVerdict::Skip));
        world.delete("gone").await;
        world.update("old", "2").await;
        world.create("new", "1").await;
        world.clock.sleep(Duration::from_secs(100)).await;
        assert_eq!(witness.count(), 0);
        world.relist(&informer).await;
        world.settled(&informer).await;
        assert_eq!(witness.told(), ["-gone=1?", "+new=1", "old=1>2"]);
        assert_eq!(witness.view(), world.truth().await);
    });
}

/// Changes of all sorts while nobody watches.
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
fn a_gap_that_the_history_covers_loses_nothing() {
    World::run(8, |world| async move {
        changes(&world).await;
        let informer = world.synced().await;
        let (witness, registration) = Witness::of(&informer);
        assert!(registration.synced().await);
        witness.forget();
        world.gap().await;
        happen(&world).await;
        world.clock.sleep(Duration::from_secs(30)).await;
        world.faults.heal();
        world.settled(&informer).await;
        assert_eq!(
            witness.told(),
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
    assert!(registration.synced().await);
    witness.forget();
    world.gap().await;
    happen(&world).await;
    world.server.compact();
    world.clock.sleep(Duration::from_secs(30)).await;
    assert_eq!(witness.count(), 0);
    world.faults.heal();
    world.settled(&informer).await;
    let told = witness.told();
    let (deletions, others) = told.split_at(2);
    assert_eq!(deletions, ["-recreated=1?", "-deleted=1?"], "what went is told first, with what it last was");
    assert_eq!(others, ["changed=1>2", "+created=1", "+recreated=2"]);
    assert_eq!(witness.view(), world.truth().await);
    assert_eq!((informer.stats().lists, informer.stats().relists), (2, 1));
}

#[test]
fn a_gap_beyond_history_is_told_as_tombstones_and_additions() {
    World::run(9, |world| a_gap_beyond_history(world, true));
    World::run(9, |world| a_gap_beyond_history(world, false));
}

#[test]
fn a_server_that_is_busy_or_broken_is_asked_again_without_listing() {
    for (code, reason) in [(429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable")] {
        World::run(10, |world| async move {
            world.create("a", "1").await;
            let informer = world.synced().await;
            world.gap().await;
            world
                .faults
                .on_call(move |call| (call.verb == Verb::Watch).then(|| refuse(code, reason, "not now")));
            world.clock.sleep(Duration::from_secs(100)).await;
            assert!(world.faults.count(Verb::Watch) > 3);
            world.update("a", "2").await;
            world.faults.heal();
            world.faults.forget();
            world.until("it is told", || informer.indexer().list().iter().all(|a| value(a) == "2")).await;
            assert_eq!(informer.stats().lists, 1, "after {code}");
            assert_eq!((world.faults.count(Verb::List), world.faults.count(Verb::Watch)), (0, 1));
        });
    }
}

/// What a handler finds when it is told something.
type Found = Arc<Mutex<Vec<Vec<String>>>>;

fn look(informer: &SharedInformer<ConfigMap>) -> Found {
    let found = Found::default();
    let (seen, indexer) = (found.clone(), informer.indexer().clone());
    informer.add_handler(move |_: &Event<ConfigMap>| {
        seen.lock()
            .expect("nobody panics with it")
            .push(indexer.list().iter().map(|object| object.name_any()).collect());
    });
    found
}

#[test]
fn readers_see_the_old_world_or_the_new_one() {
    World::run(11, |world| async move {
        for number in 0..40 {
            world.create(&format!("old-{number}"), "1").await;
        }
        let informer = world.synced().await;
        let found = look(&informer);
        world.until("all is told", || found.lock().unwrap().len() == 40).await;
        found.lock().unwrap().clear();
        world.gap().await;
        for number in 0..40 {
            world.delete(&format!("old-{number}")).await;
            world.create(&format!("new-{number}"), "1").await;
        }
        world.server.compact();
        world.faults.heal();
        world.settled(&informer).await;
        world.until("all is told", || found.lock().unwrap().len() == 80).await;
        for found in &*found.lock().unwrap() {
            assert_eq!(found.len(), 40);
            assert!(found.iter().all(|name| name.starts_with("new")), "{found:?}");
        }
    });
}

#[test]
fn a_list_that_brings_nothing_new_tells_and_decodes_nothing() {
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
        assert!(registration.synced().await);
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
fn deletions_are_told_once_though_the_watch_repeats_them() {
    World::run(13, |world| async move {
        world.create("a", "1").await;
        let informer = world.synced().await;
        let (witness, _registration) = Witness::of(&informer);
        // Cut again and again at what comes after the deletion.
        let mut cuts = 0;
        world.faults.on_frame(move |frame| {
            cuts += usize::from(frame.name == "b");
            (frame.name == "b" && cuts < 5).then_some(FrameVerdict::Disconnect)
        });
        world.delete("a").await;
        world.create("b", "1").await;
        world.until("all is told", || witness.view().contains_key("default/b")).await;
        world.settled(&informer).await;
        assert_eq!(witness.told(), ["+a=1*", "-a=1", "+b=1"]);
    });
}

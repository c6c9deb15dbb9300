//! Handlers that come, go, block and panic.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bowline_cache::{Event, HandlerFuncs, HandlerOptions, Kind, SharedInformer, Subscription};
use bowline_clock::Clock;
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, ResourceExt as _};

use crate::world::{Witness, World, held, map, version, words};

/// All that a subscription has now.
fn drain(subscription: &mut Subscription<ConfigMap>) -> Vec<Event<ConfigMap>> {
    let mut all = Vec::new();
    while let Some(Some(event)) = subscription.next().now_or_never() {
        all.push(event);
    }
    all
}

fn told(events: &[Event<ConfigMap>]) -> Vec<String> {
    events.iter().map(words).collect()
}

#[test]
fn who_comes_late_is_told_what_is_there() {
    World::run(1, |world| async move {
        world.create("a", "1").await;
        let informer = world.synced().await;
        world.create("b", "1").await;
        world.settled(&informer).await;
        let (witness, registration) = Witness::of(&informer);
        assert!(!registration.has_synced(), "it was told nothing yet");
        assert_eq!((witness.count(), registration.waiting()), (0, 2));
        assert!(registration.synced().await);
        assert_eq!(witness.told(), ["+a=1*", "+b=1*"]);
        world.update("a", "2").await;
        world.until("it is told", || witness.count() == 3).await;
        assert_eq!(witness.told()[2], "a=1>2");
    });
}

#[test]
fn who_comes_early_is_in_sync_when_it_was_told_the_first_list() {
    World::run(2, |world| async move {
        world.create("a", "1").await;
        let informer = world.informer();
        let (witness, registration) = Witness::of(&informer);
        world.clock.sleep(Duration::from_secs(10)).await;
        assert!(!registration.has_synced() && !informer.has_synced());
        informer.start();
        assert!(registration.synced().await);
        assert_eq!(witness.told(), ["+a=1*"]);
    });
}

#[test]
fn a_handler_is_in_sync_when_it_handled_the_beginning_not_when_it_was_put_in_line() {
    World::run(3, |world| async move {
        world.create("a", "1").await;
        world.create("b", "1").await;
        let informer = world.synced().await;
        let mut subscription = informer.subscribe();
        assert_eq!(told(&[subscription.next().await.unwrap()]), ["+a=1*"]);
        assert!(!subscription.has_synced());
        assert_eq!(told(&[subscription.next().await.unwrap()]), ["+b=1*"]);
        assert!(!subscription.has_synced());
        assert!(subscription.next().now_or_never().is_none());
        assert!(subscription.has_synced());
    });
}

#[test]
fn nothing_is_told_after_removal() {
    World::run(4, |world| async move {
        world.create("a", "1").await;
        let informer = world.synced().await;
        let (gone, registration) = Witness::of(&informer);
        let (stays, other) = Witness::of(&informer);
        assert!(registration.synced().await && other.synced().await);
        assert_eq!(informer.stats().handlers, 2);
        world.update("a", "2").await;
        registration.remove().await;
        let before = gone.count();
        world.update("a", "3").await;
        world.until("the other is told", || stays.count() == 3).await;
        assert_eq!(gone.count(), before);
        assert_eq!(informer.stats().handlers, 1);
    });
}

#[test]
fn what_waits_for_nobody_does_not_wait() {
    World::run(5, |world| async move {
        let informer = world.synced().await;
        let subscription = informer.subscribe();
        world.create("a", "1").await;
        world.settled(&informer).await;
        assert_eq!((informer.stats().backlog, informer.stats().handlers), (1, 1));
        drop(subscription);
        assert_eq!((informer.stats().backlog, informer.stats().handlers), (0, 0));
    });
}

/// A door that a thread waits at.
#[derive(Default)]
struct Door {
    is_open: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicBool,
}

impl Door {
    fn pass(&self) {
        self.waiting.store(true, Ordering::SeqCst);
        let mut is_open = self.is_open.lock().expect("nobody panics with it");
        while !*is_open {
            is_open = self.opened.wait(is_open).expect("nobody panics with it");
        }
    }

    fn open(&self) {
        *self.is_open.lock().expect("nobody panics with it") = true;
        self.opened.notify_all();
    }
}

/// Opens a door in the end, whatever happens: a runtime does not end while a thread waits.
struct Opens(Arc<Door>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.open();
    }
}

#[test]
fn a_handler_that_blocks_its_thread_holds_up_nobody_and_removal_waits_for_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    let clock = Clock::real();
    runtime.block_on(async {
        let server = bowline_apiserver::ApiServer::builder().clock(clock.clone()).build().unwrap();
        let client = Client::new(server.clone(), "default");
        let maps = kube::Api::<ConfigMap>::namespaced(client.clone(), "default");
        let scope = clock.scope("test");
        let informer =
            SharedInformer::builder(&scope.spawner(), Kind::typed()).client(client).build().unwrap();
        let door = Arc::new(Door::default());
        let _opens = Opens(door.clone());
        let (at_door, calls) = (door.clone(), Arc::new(AtomicUsize::new(0)));
        let called = calls.clone();
        let blocked = informer.add_handler(move |_: &Event<ConfigMap>| {
            called.fetch_add(1, Ordering::SeqCst);
            at_door.pass();
        });
        let (witness, _registration) = Witness::of(&informer);
        maps.create(&kube::api::PostParams::default(), &map("a", "1")).await.unwrap();
        maps.create(&kube::api::PostParams::default(), &map("b", "1")).await.unwrap();
        informer.start();
        let limit = Duration::from_secs(20);
        let quick = async {
            while witness.count() < 2 || !door.waiting.load(Ordering::SeqCst) {
                clock.sleep(Duration::from_millis(1)).await;
            }
        };
        clock.timeout(limit, quick).await.expect("the other is told");
        let mut removal = std::pin::pin!(blocked.remove());
        let soon = clock.timeout(Duration::from_millis(50), removal.as_mut()).await;
        assert!(soon.is_err(), "it runs still");
        door.open();
        clock.timeout(limit, removal).await.expect("it has ended");
        assert_eq!(calls.load(Ordering::SeqCst), 1, "the second event of the same batch is not told");
        informer.stop().await;
    });
}

#[test]
fn the_backlog_of_who_does_not_read_is_bounded_and_true() {
    World::run(6, |world| async move {
        for name in ["updated", "deleted", "recreated"] {
            world.create(name, "0").await;
        }
        let informer = world.synced().await;
        let mut slow = informer.subscribe();
        let (witness, registration) = Witness::of(&informer);
        assert!(registration.synced().await);
        assert_eq!(drain(&mut slow).len(), 3);
        let before: BTreeMap<_, _> = held(&informer);
        // One batch that is waited with, and more behind it than is kept as it came.
        world.create("first", "1").await;
        world.settled(&informer).await;
        for number in 1..=9000 {
            world.update("updated", &number.to_string()).await;
        }
        world.delete("deleted").await;
        world.delete("recreated").await;
        world.create("recreated", "1").await;
        world.create("created", "1").await;
        world.settled(&informer).await;
        world.until("who keeps up is told of everything", || witness.count() == 3 + 1 + 9000 + 4).await;
        assert!(slow.waiting() < 10, "{} wait", slow.waiting());
        let events = drain(&mut slow);
        assert_eq!(
            told(&events),
            ["+first=1", "updated=0>9000", "-deleted=0", "-recreated=0", "+recreated=1", "+created=1"]
        );
        let Event::Update { old, .. } = &events[1] else { panic!("an update") };
        assert_eq!(version(old), before["default/updated"], "the old is what it was told last");
        world.update("updated", "again").await;
        world.settled(&informer).await;
        assert_eq!(told(&drain(&mut slow)), ["updated=9000>again"]);
    });
}

#[test]
fn who_blocks_does_not_hold_up_others() {
    World::run(7, |world| async move {
        let informer = world.synced().await;
        let _idle = informer.subscribe();
        let (witness, _registration) = Witness::of(&informer);
        for number in 0..50 {
            world.create(&number.to_string(), "1").await;
        }
        world.until("the other is told", || witness.count() == 50).await;
    });
}

#[test]
fn a_handler_that_panics_goes_on_and_is_counted() {
    World::run(8, |world| async move {
        let informer = world.synced().await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = seen.clone();
        let registration = informer.add_handler(move |event: &Event<ConfigMap>| {
            assert!(event.object().name_any() != "bad", "as the test wants it");
            told.lock().unwrap().push(words(event));
        });
        let (witness, _other) = Witness::of(&informer);
        for name in ["a", "bad", "b"] {
            world.create(name, "1").await;
        }
        world.until("it goes on", || seen.lock().unwrap().len() == 2).await;
        assert_eq!(*seen.lock().unwrap(), ["+a=1", "+b=1"]);
        assert_eq!((registration.panics(), witness.told().len()), (1, 3));
    });
}

#[test]
fn closures_for_some_events_are_told_those() {
    World::run(9, |world| async move {
        world.create("a", "1").await;
        let informer = world.synced().await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (adds, updates, deletes) = (seen.clone(), seen.clone(), seen.clone());
        informer.add_handler(
            HandlerFuncs::<ConfigMap>::new()
                .on_add(move |object, initial| {
                    adds.lock().unwrap().push(format!("+{} {initial}", object.name_any()));
                })
                .on_update(move |_, new| updates.lock().unwrap().push(format!("={}", new.name_any())))
                .on_delete(move |gone| deletes.lock().unwrap().push(format!("-{}", gone.key()))),
        );
        let only = Arc::new(AtomicUsize::new(0));
        let count = only.clone();
        informer.add_handler(HandlerFuncs::<ConfigMap>::new().on_delete(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        world.update("a", "2").await;
        world.create("b", "1").await;
        world.delete("a").await;
        world.until("all is told", || seen.lock().unwrap().len() == 4).await;
        assert_eq!(*seen.lock().unwrap(), ["+a true", "=a", "+b false", "-default/a"]);
        assert_eq!(only.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn only_who_asked_is_told_again_of_what_did_not_change() {
    World::run(10, |world| async move {
        world.create("a", "1").await;
        world.create("b", "1").await;
        let informer = world.informer_with(|builder| builder.resync(Duration::from_secs(100)));
        informer.start();
        informer.synced().await;
        let every = |seconds| HandlerOptions::default().resync(Duration::from_secs(seconds));
        let (often, _often) = Witness::with(&informer, every(10));
        let (rarely, _rarely) = Witness::with(&informer, every(35));
        let (never, _never) = Witness::with(&informer, HandlerOptions::default().no_resync());
        let (default, _default) = Witness::of(&informer);
        world.clock.sleep(Duration::from_secs(1)).await;
        for witness in [&often, &rarely, &never, &default] {
            assert_eq!(witness.count(), 2);
            witness.forget();
        }
        world.clock.sleep(Duration::from_secs(103)).await;
        assert_eq!((often.count(), rarely.count(), never.count(), default.count()), (20, 4, 0, 2));
        for event in often.events() {
            let Event::Update { old, new } = &event else { panic!("{event:?} is not an update") };
            assert!(Arc::ptr_eq(old, new));
        }
        world.update("a", "2").await;
        world.until("it is told", || never.count() == 1).await;
        world.clock.sleep(Duration::from_secs(10)).await;
        assert_eq!(often.told()[20..], ["a=1>2", "a=2>2", "b=1>1"]);
    });
}

#[test]
fn a_resync_of_who_is_gone_is_of_no_use_to_anybody() {
    World::run(11, |world| async move {
        world.create("a", "1").await;
        let informer = world.synced().await;
        let every = HandlerOptions::default().resync(Duration::from_secs(10));
        let (gone, registration) = Witness::with(&informer, every.clone());
        assert!(registration.synced().await);
        registration.remove().await;
        let (stays, _registration) = Witness::with(&informer, every);
        world.clock.sleep(Duration::from_secs(35)).await;
        assert_eq!((gone.count(), stays.count()), (1, 4));
    });
}

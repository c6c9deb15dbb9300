//! Handlers that are added, removed, block or panic.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bowline_cache::{Event, EventHandlerFuncs, HandlerOptions, Kind, SharedInformer, Subscription};
use bowline_clock::Clock;
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, ResourceExt as _};
use tokio::task::unconstrained;

use crate::world::{Witness, World, held, map, version, words};

/// All events that a subscription has now.
fn drain(subscription: &mut Subscription<ConfigMap>) -> Vec<Event<ConfigMap>> {
    let mut all = Vec::new();
    while let Some(Some(event)) = unconstrained(subscription.next()).now_or_never() {
        all.push(event);
    }
    all
}

fn lines(events: &[Event<ConfigMap>]) -> Vec<String> {
    events.iter().map(words).collect()
}

#[test]
fn a_late_handler_gets_the_existing_objects() {
    World::run(1, |world| async move {
        world.create("a", "1").await;
        let informer = world.synced().await;
        world.create("b", "1").await;
        world.settled(&informer).await;
        let (witness, registration) = Witness::of(&informer);
        assert!(!registration.has_synced(), "no event was delivered yet");
        assert_eq!((witness.count(), registration.waiting()), (0, 2));
        assert!(registration.wait_synced().await);
        assert_eq!(witness.lines(), ["+a=1*", "+b=1*"]);
        world.update("a", "2").await;
        world.until("the event arrives", || witness.count() == 3).await;
        assert_eq!(witness.lines()[2], "a=1>2");
    });
}

#[test]
fn an_early_handler_has_synced_after_the_first_list() {
    World::run(2, |world| async move {
        world.create("a", "1").await;
        let informer = world.informer();
        let (witness, registration) = Witness::of(&informer);
        world.clock.sleep(Duration::from_secs(10)).await;
        assert!(!registration.has_synced() && !informer.has_synced());
        informer.start();
        assert!(registration.wait_synced().await);
        assert_eq!(witness.lines(), ["+a=1*"]);
    });
}

#[test]
fn a_handler_has_synced_when_it_has_handled_the_initial_list_not_when_it_was_queued() {
    World::run(3, |world| async move {
        world.create("a", "1").await;
        world.create("b", "1").await;
        let informer = world.synced().await;
        let mut subscription = informer.subscribe();
        assert_eq!(lines(&[subscription.next().await.unwrap()]), ["+a=1*"]);
        assert!(!subscription.has_synced());
        assert_eq!(lines(&[subscription.next().await.unwrap()]), ["+b=1*"]);
        assert!(!subscription.has_synced());
        assert!(subscription.next().now_or_never().is_none());
        assert!(subscription.has_synced());
    });
}

#[test]
fn a_removed_handler_gets_no_event() {
    World::run(4, |world| async move {
        world.create("a", "1").await;
        let informer = world.synced().await;
        let (gone, registration) = Witness::of(&informer);
        let (stays, other) = Witness::of(&informer);
        assert!(registration.wait_synced().await && other.wait_synced().await);
        assert_eq!(informer.stats().handlers, 2);
        world.update("a", "2").await;
        registration.unregister().await;
        let before = gone.count();
        world.update("a", "3").await;
        world.until("the other handler gets the event", || stays.count() == 3).await;
        assert_eq!(gone.count(), before);
        assert_eq!(informer.stats().handlers, 1);
    });
}

#[test]
fn events_of_a_dropped_subscription_are_dropped() {
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

#[test]
fn the_removal_of_a_subscription_ends_it_without_waiting_for_its_reader() {
    World::run(5, |world| async move {
        let informer = world.synced().await;
        let mut subscription = informer.subscribe();
        assert!(subscription.registration().unregister().now_or_never().is_some());
        assert!(subscription.next().await.is_none());
    });
}

/// A gate that a thread waits at.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicBool,
}

impl Gate {
    fn pass(&self) {
        self.waiting.store(true, Ordering::SeqCst);
        let mut is_open = self.is_open.lock().expect("the lock is not poisoned");
        while !*is_open {
            is_open = self.opened.wait(is_open).expect("the lock is not poisoned");
        }
    }

    fn open(&self) {
        *self.is_open.lock().expect("the lock is not poisoned") = true;
        self.opened.notify_all();
    }
}

/// Opens a gate on drop: a runtime does not end while a thread waits.
struct OpenOnDrop(Arc<Gate>);

impl Drop for OpenOnDrop {
    fn drop(&mut self) {
        self.0.open();
    }
}

#[test]
fn a_handler_that_blocks_its_thread_delays_no_other_and_removal_waits_for_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    let clock = Clock::real();
    runtime.block_on(async {
        let server = bowline_apiserver::ApiServer::builder().clock(clock.clone()).build().unwrap();
        let client = Client::new(server.clone(), "default");
        let maps = kube::Api::<ConfigMap>::namespaced(client.clone(), "default");
        let scope = clock.scope("test");
        let informer =
            SharedInformer::builder(&scope.spawner(), Kind::typed()).client(client).build().unwrap();
        let gate = Arc::new(Gate::default());
        let _open_on_drop = OpenOnDrop(gate.clone());
        let (at_gate, calls) = (gate.clone(), Arc::new(AtomicUsize::new(0)));
        let called = calls.clone();
        let blocked = informer.add_handler(move |_: &Event<ConfigMap>| {
            called.fetch_add(1, Ordering::SeqCst);
            at_gate.pass();
        });
        let (witness, _registration) = Witness::of(&informer);
        maps.create(&kube::api::PostParams::default(), &map("a", "1")).await.unwrap();
        maps.create(&kube::api::PostParams::default(), &map("b", "1")).await.unwrap();
        informer.start();
        let limit = Duration::from_secs(20);
        let quick = async {
            while witness.count() < 2 || !gate.waiting.load(Ordering::SeqCst) {
                clock.sleep(Duration::from_millis(1)).await;
            }
        };
        clock.timeout(limit, quick).await.expect("the other handler gets the event");
        let mut removal = std::pin::pin!(blocked.unregister());
        let soon = clock.timeout(Duration::from_millis(50), removal.as_mut()).await;
        assert!(soon.is_err(), "it runs still");
        gate.open();
        clock.timeout(limit, removal).await.expect("it has ended");
        assert_eq!(calls.load(Ordering::SeqCst), 1, "the second event of the same batch is not delivered");
        informer.stop().await;
    });
}

#[test]
fn the_backlog_of_a_slow_subscriber_is_bounded_and_correct() {
    World::run(6, |world| async move {
        for name in ["updated", "deleted", "recreated"] {
            world.create(name, "0").await;
        }
        let informer = world.synced().await;
        let mut slow = informer.subscribe();
        let (witness, registration) = Witness::of(&informer);
        assert!(registration.wait_synced().await);
        assert_eq!(drain(&mut slow).len(), 3);
        let before: BTreeMap<_, _> = held(&informer);
        // One batch in progress, and more behind it than is kept unmerged.
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
        world.until("a handler that keeps up gets all events", || witness.count() == 3 + 1 + 9000 + 4).await;
        assert!(slow.waiting() < 10, "{} wait", slow.waiting());
        let events = drain(&mut slow);
        assert_eq!(
            lines(&events),
            ["+first=1", "updated=0>9000", "-deleted=0", "-recreated=0", "+recreated=1", "+created=1"]
        );
        let Event::Update { old, .. } = &events[1] else { panic!("an update") };
        assert_eq!(version(old), before["default/updated"], "`old` is the state delivered last");
        world.update("updated", "again").await;
        world.settled(&informer).await;
        assert_eq!(lines(&drain(&mut slow)), ["updated=9000>again"]);
    });
}

#[test]
fn a_subscription_yields_to_other_tasks_during_a_long_initial_list() {
    const MANY: usize = 100_000;
    World::run(9, |world| async move {
        let informer = world.informer();
        informer.indexer().replace((0..MANY).map(|number| map(&number.to_string(), "1")).collect());
        let mut subscription = informer.subscribe();
        let turns = Arc::new(AtomicUsize::new(0));
        let counter = turns.clone();
        let neighbour = world.spawner().spawn("neighbour", async move {
            loop {
                counter.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        for _ in 0..MANY {
            subscription.next().await.expect("it is there");
        }
        let turns = turns.load(Ordering::Relaxed);
        assert!(turns > MANY / 200, "the other task had {turns} turns");
        drop(neighbour);
    });
}

#[test]
fn an_idle_subscription_delays_no_handler() {
    World::run(7, |world| async move {
        let informer = world.synced().await;
        let _idle = informer.subscribe();
        let (witness, _registration) = Witness::of(&informer);
        for number in 0..50 {
            world.create(&number.to_string(), "1").await;
        }
        world.until("the other handler gets the event", || witness.count() == 50).await;
    });
}

#[test]
fn a_handler_continues_after_a_panic_which_is_counted() {
    World::run(8, |world| async move {
        let informer = world.synced().await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let lines = seen.clone();
        let registration = informer.add_handler(move |event: &Event<ConfigMap>| {
            assert!(event.object().name_any() != "bad", "this panic is part of the test");
            lines.lock().unwrap().push(words(event));
        });
        let (witness, _other) = Witness::of(&informer);
        for name in ["a", "bad", "b"] {
            world.create(name, "1").await;
        }
        world.until("it continues", || seen.lock().unwrap().len() == 2).await;
        assert_eq!(*seen.lock().unwrap(), ["+a=1", "+b=1"]);
        assert_eq!((registration.panics(), witness.lines().len()), (1, 3));
    });
}

#[test]
fn handler_funcs_get_only_their_events() {
    World::run(9, |world| async move {
        world.create("a", "1").await;
        let informer = world.synced().await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (adds, updates, deletes) = (seen.clone(), seen.clone(), seen.clone());
        informer.add_handler(
            EventHandlerFuncs::<ConfigMap>::new()
                .on_add(move |object, initial| {
                    adds.lock().unwrap().push(format!("+{} {initial}", object.name_any()));
                })
                .on_update(move |_, new| updates.lock().unwrap().push(format!("={}", new.name_any())))
                .on_delete(move |gone| deletes.lock().unwrap().push(format!("-{}", gone.key()))),
        );
        let only = Arc::new(AtomicUsize::new(0));
        let count = only.clone();
        informer.add_handler(EventHandlerFuncs::<ConfigMap>::new().on_delete(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        world.update("a", "2").await;
        world.create("b", "1").await;
        world.delete("a").await;
        world.until("all events arrive", || seen.lock().unwrap().len() == 4).await;
        assert_eq!(*seen.lock().unwrap(), ["+a true", "=a", "+b false", "-default/a"]);
        assert_eq!(only.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn only_handlers_with_a_resync_are_resynced() {
    World::run(10, |world| async move {
        world.create("a", "1").await;
        world.create("b", "1").await;
        let informer = world.informer_with(|builder| builder.resync(Duration::from_secs(100)));
        informer.start();
        informer.wait_synced().await;
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
        world.until("the event arrives", || never.count() == 1).await;
        world.clock.sleep(Duration::from_secs(10)).await;
        assert_eq!(often.lines()[20..], ["a=1>2", "a=2>2", "b=1>1"]);
    });
}

#[test]
fn a_removed_handler_is_not_resynced() {
    World::run(11, |world| async move {
        world.create("a", "1").await;
        let informer = world.synced().await;
        let every = HandlerOptions::default().resync(Duration::from_secs(10));
        let (gone, registration) = Witness::with(&informer, every.clone());
        assert!(registration.wait_synced().await);
        registration.unregister().await;
        let (stays, _registration) = Witness::with(&informer, every);
        world.clock.sleep(Duration::from_secs(35)).await;
        assert_eq!((gone.count(), stays.count()), (1, 4));
    });
}

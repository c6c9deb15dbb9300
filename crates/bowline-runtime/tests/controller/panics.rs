//! Foreign code that panics or calls back: its effects are limited.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bowline_machinery::ObjectKey;
use bowline_runtime::handler::Requests;
use bowline_runtime::{
    Action, Change, Context, Controller, ControllerBuilder, Error, Request, Watch, handler, source,
};
use bowline_workqueue::ItemExponentialFailure;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::world::{Notes, World};

async fn written_down<K: 'static>(builder: ControllerBuilder<K>) -> (Controller, Notes) {
    let notes = Notes::default();
    let written = notes.clone();
    let reconcile = move |context: Context, request: Request| {
        written.write(&context, &request);
        async { Ok::<_, Error>(Action::done()) }
    };
    let controller = builder.build(reconcile).expect("it can be built");
    controller.start().expect("it can be started");
    controller.wait_ready().await.expect("it is ready");
    (controller, notes)
}

fn is_poison(map: &ConfigMap) -> bool {
    map.metadata.name.as_deref() == Some("poison")
}

fn panics(world: &World, source: &str) -> u64 {
    world.metric(&format!("bowline_source_panics_total{{controller=\"watcher\",source=\"{source}\"}}"))
}

/// Handlers that panic for one object.
fn handlers() -> [Watch<ConfigMap>; 3] {
    let by_change = |change: &Change<'_, ConfigMap>, requests: &mut Requests<'_>| {
        assert!(!is_poison(change.object()), "on purpose");
        requests.add(Request::new("default", change.meta().name.as_deref().unwrap_or_default()));
    };
    let by_map = handler::map(|map: &ConfigMap| {
        assert!(!is_poison(map), "on purpose");
        [Request::new("default", map.metadata.name.as_deref().unwrap_or_default())]
    });
    let filtered = Watch::new(source::kind(), handler::object()).filter(|change: &Change<'_, ConfigMap>| {
        assert!(!is_poison(change.object()), "on purpose");
        true
    });
    [Watch::new(source::kind(), by_change), Watch::new(source::kind(), by_map), filtered]
}

#[test]
fn a_handler_a_map_or_a_predicate_that_panics_holds_up_no_other_change_and_is_counted() {
    for (number, watch) in handlers().into_iter().enumerate() {
        World::run(number as u64, |world| async move {
            for name in ["a", "poison", "z"] {
                world.create(name).await;
            }
            let builder = Controller::builder(&world.cluster).named("watcher").watches(watch);
            let (_controller, notes) = written_down(builder).await;
            world.settle().await;
            assert_eq!(notes.requests(), ["default/a", "default/z"]);
            assert_eq!(panics(&world, "ConfigMap"), 1);
        });
    }
}

#[test]
fn a_function_whose_handler_panics_goes_on() {
    World::run(4, |world| async move {
        let maps = [world.create("a").await, world.create("poison").await, world.create("z").await];
        let found = source::function("finder", move |mut sink: source::Sink<ConfigMap>| {
            let maps = maps.clone();
            async move {
                for map in &maps {
                    sink.object(map).await;
                }
                std::future::pending::<()>().await;
            }
        });
        let watch = Watch::new(found, handler::object()).filter(|change: &Change<'_, ConfigMap>| {
            assert!(!is_poison(change.object()), "on purpose");
            true
        });
        let builder = Controller::builder(&world.cluster).named("watcher").watches(watch);
        let (_controller, notes) = written_down(builder).await;
        world.settle().await;
        assert_eq!(notes.requests(), ["default/a", "default/z"]);
        assert_eq!(panics(&world, "finder"), 1);
    });
}

fn unhandled(world: &World, source: &str) -> u64 {
    let labels = format!("{{controller=\"watcher\",source=\"{source}\"}}");
    world.metric(&format!("bowline_source_unhandled_changes_total{labels}"))
}

/// A predicate that panics for some objects until it has done so a number of times.
fn panicking(times: u32) -> impl Fn(&Change<'_, ConfigMap>) -> bool + Send + Sync + 'static {
    let panics = AtomicU32::new(0);
    move |change: &Change<'_, ConfigMap>| {
        let is_last = is_poison(change.object()) && panics.fetch_add(1, Ordering::Relaxed) < times;
        assert!(!is_last, "on purpose");
        true
    }
}

#[test]
fn a_change_that_made_a_predicate_panic_is_tried_again_while_others_go_on() {
    World::run(20, |world| async move {
        let watch = Watch::new(source::kind(), handler::object()).filter(panicking(3));
        let builder = Controller::builder(&world.cluster).named("watcher").watches(watch);
        let (controller, notes) = written_down(builder).await;
        world.create("poison").await;
        world.create("a").await;
        world.settle().await;
        assert_eq!(notes.requests(), ["default/a"]);
        // After one, two and four seconds.
        world.clock.sleep(Duration::from_secs(6)).await;
        assert_eq!((notes.len(), panics(&world, "ConfigMap")), (1, 3));
        world.clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(notes.requests(), ["default/a", "default/poison"]);
        assert_eq!(notes.triggers()[1], "ConfigMap created", "it is the same change");
        assert_eq!((unhandled(&world, "ConfigMap"), controller.unhandled_changes()), (0, vec![]));
    });
}

#[test]
fn a_change_for_which_a_handler_panics_every_time_is_named_until_the_object_goes_through() {
    World::run(21, |world| async move {
        let by_change = |change: &Change<'_, ConfigMap>, requests: &mut Requests<'_>| {
            let is_bad = is_poison(change.object()) && change.object().data.is_none();
            assert!(!is_bad, "on purpose");
            requests.add(Request::new("default", "found"));
        };
        let watch = Watch::new(source::kind(), by_change);
        // Another watch of the same name, for which nothing panics.
        let other =
            Watch::<ConfigMap>::new(source::kind(), handler::object()).filter(|_: &Change<'_, _>| false);
        let builder = Controller::builder(&world.cluster).named("watcher").watches(watch).watches(other);
        let (controller, notes) = written_down(builder).await;
        world.create("poison").await;
        world.clock.sleep(Duration::from_secs(240)).await;
        assert_eq!((controller.unhandled_changes(), panics(&world, "ConfigMap")), (vec![], 9));
        world.clock.sleep(Duration::from_secs(5)).await;
        let changes = controller.unhandled_changes();
        assert_eq!((changes.len(), unhandled(&world, "ConfigMap"), panics(&world, "ConfigMap")), (1, 1, 10));
        assert_eq!((&*changes[0].source, changes[0].attempts), ("ConfigMap", 10));
        assert_eq!(changes[0].object, Some(ObjectKey::new("default", "poison")));
        assert!(changes[0].type_name.contains("panics::a_change_for_which"), "{changes:?}");
        world.clock.sleep(Duration::from_secs(3600)).await;
        assert_eq!(panics(&world, "ConfigMap"), 10, "it is not tried again");
        world.patch("poison", &serde_json::json!({"metadata": {"labels": {"still": "bad"}}})).await;
        world.settle().await;
        assert_eq!((controller.unhandled_changes().len(), panics(&world, "ConfigMap")), (1, 11));
        assert_eq!(notes.len(), 0);
        world.touch("poison", "good").await;
        world.settle().await;
        assert_eq!(
            (notes.requests(), controller.unhandled_changes()),
            (vec!["default/found".to_owned()], vec![])
        );
    });
}

#[test]
fn a_change_is_not_named_when_the_object_was_fixed_or_deleted_meanwhile() {
    World::run(23, |world| async move {
        let is_good = |change: &Change<'_, ConfigMap>| {
            assert!(!is_poison(change.object()) || change.object().data.is_some(), "on purpose");
            true
        };
        let watch = Watch::new(source::kind(), handler::object()).filter(is_good);
        let builder = Controller::builder(&world.cluster).named("watcher").watches(watch);
        let (controller, notes) = written_down(builder).await;
        world.create("poison").await;
        world.clock.sleep(Duration::from_secs(30)).await;
        world.touch("poison", "good").await;
        world.clock.sleep(Duration::from_secs(300)).await;
        assert_eq!(notes.requests(), ["default/poison"]);
        assert_eq!((controller.unhandled_changes(), panics(&world, "ConfigMap")), (vec![], 10), "all tries");

        // A deletion that makes it panic, too: its object no longer exists.
        world.delete("poison").await;
        world.create("poison").await;
        world.clock.sleep(Duration::from_secs(30)).await;
        world.delete("poison").await;
        world.clock.sleep(Duration::from_secs(300)).await;
        assert_eq!(controller.unhandled_changes(), []);
    });
}

#[test]
fn a_watch_that_is_removed_takes_its_failed_changes_along() {
    World::run(22, |world| async move {
        let nothing =
            Watch::<ConfigMap>::new(source::kind(), handler::object()).filter(|_: &Change<'_, _>| false);
        let builder = Controller::builder(&world.cluster).named("watcher").watches(nothing);
        let (controller, notes) = written_down(builder).await;
        let watch = Watch::new(source::kind(), handler::object()).filter(panicking(u32::MAX));
        let watch = controller.watch(watch).unwrap();
        world.create("poison").await;
        world.clock.sleep(Duration::from_secs(300)).await;
        world.touch("poison", "1").await;
        world.settle().await;
        let before = panics(&world, "ConfigMap");
        assert_eq!((controller.unhandled_changes().len(), before), (1, 11));
        watch.unregister().await;
        assert_eq!(controller.unhandled_changes(), []);
        world.clock.sleep(Duration::from_secs(300)).await;
        assert_eq!((panics(&world, "ConfigMap"), notes.len()), (before, 0));
    });
}

#[test]
fn what_comes_through_a_channel_a_stream_or_a_function_is_tried_again_too() {
    World::run(23, |world| async move {
        let maps = [world.create("a").await, world.create("poison").await, world.create("z").await];
        let found = maps.clone();
        let function = source::function("function", move |mut sink: source::Sink<ConfigMap>| {
            let maps = found.clone();
            async move {
                for map in &maps {
                    sink.object(map).await;
                }
            }
        });
        let (sender, channel) = source::channel("channel");
        for map in &maps {
            sender.try_send(map.clone()).unwrap();
        }
        let stream = source::stream("stream", futures::stream::iter(maps));
        let builder = Controller::builder(&world.cluster)
            .named("watcher")
            .watches(Watch::new(function, handler::object()).filter(panicking(2)))
            .watches(Watch::new(channel, handler::object()).filter(panicking(2)))
            .watches(Watch::new(stream, handler::object()).filter(panicking(2)));
        let (_controller, notes) = written_down(builder).await;
        world.settle().await;
        assert_eq!(notes.requests(), ["default/a", "default/z"]);
        world.clock.sleep(Duration::from_secs(4)).await;
        assert_eq!(notes.requests()[2..], ["default/poison"; 3]);
        let mut triggers = notes.triggers().split_off(2);
        triggers.sort();
        assert_eq!(triggers, ["channel generic", "function generic", "stream generic"]);
        for source in ["function", "channel", "stream"] {
            assert_eq!((panics(&world, source), unhandled(&world, source)), (2, 0));
        }
    });
}

#[test]
fn a_stop_drops_the_changes_that_are_to_be_tried_again_and_counts_them() {
    World::run(24, |world| async move {
        let watch = Watch::new(source::kind(), handler::object()).filter(panicking(1));
        let builder = Controller::builder(&world.cluster).named("watcher").watches(watch);
        let (controller, notes) = written_down(builder).await;
        world.create("poison").await;
        world.settle().await;
        assert_eq!(controller.stop().await.unwrap().waiting(), 1);
        world.clock.sleep(Duration::from_secs(600)).await;
        assert_eq!(notes.len(), 0);
        controller.start().unwrap();
        world.settle().await;
        assert_eq!(notes.triggers(), ["ConfigMap initial"], "it is seen anew");
    });
}

#[test]
fn a_function_that_panics_is_counted_and_called_again_after_a_while() {
    World::run(5, |world| async move {
        let calls = Arc::new(AtomicU32::new(0));
        let called = calls.clone();
        // The first two calls panic at once, the third when it is awaited; the fourth works.
        let finder = source::function("finder", move |mut sink: source::Sink<ConfigMap>| {
            let call = called.fetch_add(1, Ordering::Relaxed);
            assert!(call > 1, "on purpose");
            async move {
                assert!(call > 2, "on purpose");
                sink.request(Request::new("default", "found"));
            }
        });
        let builder = Controller::builder(&world.cluster)
            .named("watcher")
            .watches(Watch::new(finder, handler::object()));
        let (controller, notes) = written_down(builder).await;
        world.clock.sleep(Duration::from_secs(8)).await;
        assert_eq!(notes.requests(), ["default/found"]);
        assert_eq!((panics(&world, "finder"), calls.load(Ordering::Relaxed)), (3, 4));
        // One that is over is over.
        world.clock.sleep(Duration::from_secs(3600)).await;
        assert_eq!(calls.load(Ordering::Relaxed), 4);
        let _ = controller.stop().await.unwrap();
        controller.start().unwrap();
        world.settle().await;
        assert_eq!(notes.requests().len(), 2, "it is called once more when the controller starts again");
    });
}

#[test]
fn a_stream_that_panics_is_counted_and_leaves_the_rest_alone() {
    World::run(6, |world| async move {
        let stream = source::stream("broken", futures::stream::poll_fn(|_| panic!("on purpose")));
        let builder = Controller::builder(&world.cluster)
            .named("watcher")
            .watches(Watch::<ConfigMap>::new(stream, handler::object()))
            .watches(Watch::<ConfigMap>::new(source::kind(), handler::object()));
        let (controller, notes) = written_down(builder).await;
        world.create("a").await;
        world.settle().await;
        assert_eq!(notes.triggers(), ["ConfigMap created"]);
        assert_eq!(panics(&world, "broken"), 1);
        assert!(controller.stop().await.unwrap().aborted().is_empty());
    });
}

#[test]
fn functions_and_limiters_may_call_their_controller() {
    World::run(7, |world| async move {
        let handle = Arc::new(OnceLock::<Controller>::new());
        let (by_function, by_limiter) = (handle.clone(), handle.clone());
        let finder = source::function("finder", move |_: source::Sink<ConfigMap>| {
            let controller = by_function.get().expect("it is built");
            assert!(controller.is_running());
            controller.trigger(Request::new("default", "found"));
            async {}
        });
        let notes = Notes::default();
        let written = notes.clone();
        let controller = Controller::builder(&world.cluster)
            .named("watcher")
            .watches(Watch::new(finder, handler::object()))
            .limiter(move || {
                let _ = by_limiter.get().map(Controller::is_running);
                ItemExponentialFailure::default()
            })
            .build(move |context: Context, request: Request| {
                written.write(&context, &request);
                async { Ok::<_, Error>(Action::done()) }
            })
            .unwrap();
        handle.set(controller.clone()).unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.settle().await;
        assert_eq!(notes.triggers(), ["manual generic"]);
    });
}

#[test]
fn a_hook_for_what_is_given_up_that_panics_is_in_nobodys_way() {
    World::run(8, |world| async move {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let called = calls.clone();
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .max_retries(0, |_| panic!("on purpose"))
            .build(move |_: Context, request: Request| {
                called.lock().unwrap().push(request.to_string());
                async { Err::<Action, _>(Error::message("never")) }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.settle().await;
        world.create("b").await;
        world.touch("a", "1").await;
        world.settle().await;
        assert_eq!(*calls.lock().unwrap(), ["default/a", "default/b", "default/a"]);
    });
}

#[test]
fn what_a_worker_drops_when_it_is_aborted_may_panic() {
    struct Bomb(Arc<AtomicBool>);

    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
            panic!("on purpose");
        }
    }

    World::run(9, |world| async move {
        let dropped = Arc::new(AtomicBool::new(false));
        let seen = dropped.clone();
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .stop_timeout(Duration::from_secs(1))
            .build(move |_: Context, _: Request| {
                let bomb = Bomb(seen.clone());
                async move {
                    std::future::pending::<()>().await;
                    drop(bomb);
                    Ok::<_, Error>(Action::done())
                }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.settle().await;
        let stopped = controller.stop().await.unwrap();
        assert_eq!(stopped.aborted(), [Request::new("default", "a")]);
        assert!(dropped.load(Ordering::Relaxed));
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
    });
}

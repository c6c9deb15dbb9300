//! The triggers of a reconcile: complete, whatever happens to the request on its way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use bowline_runtime::{Action, Context, Controller, Error, Request};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::world::{Notes, World};

const HOUR: Duration = Duration::from_hours(1);

/// The first run of an object takes a while and returns this; all others are done at once.
async fn first_run(
    world: &World,
    end: impl Fn() -> Result<Action, Error> + Clone + Send + Sync + 'static,
) -> Notes {
    let notes = Notes::default();
    let (written, calls) = (notes.clone(), Arc::new(AtomicU32::new(0)));
    let controller = world
        .cluster
        .controller::<ConfigMap>()
        .owns::<ConfigMap>()
        .build(move |context: Context, request: Request| {
            written.write(&context, &request);
            let is_first = request.name() == "a" && calls.fetch_add(1, Ordering::Relaxed) == 0;
            let end = end.clone();
            async move {
                if !is_first {
                    return Ok(Action::done());
                }
                context.clock().sleep(Duration::from_millis(100)).await;
                end()
            }
        })
        .expect("it can be built");
    controller.start().expect("it can be started");
    controller.wait_ready().await.expect("it is ready");
    notes
}

/// Triggers of the runs of one object.
fn of(notes: &Notes, name: &str) -> Vec<String> {
    let all = notes.all().into_iter().filter(|note| note.request.name() == name);
    all.map(|note| note.triggers).collect()
}

async fn create_child(world: &World, name: &str, uid: &str) {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": uid, "controller": true});
    world.create_map(&json!({"metadata": {"name": name, "ownerReferences": [owner]}})).await;
}

#[test]
fn what_happens_while_an_object_is_reconciled_is_one_more_run_with_all_its_triggers() {
    World::run(1, |world| async move {
        let notes = first_run(&world, || Ok(Action::done())).await;
        let uid = world.create("a").await.metadata.uid.unwrap();
        world.clock.sleep(Duration::from_millis(20)).await;
        world.touch("a", "1").await;
        world.touch("a", "2").await;
        create_child(&world, "child-1", &uid).await;
        create_child(&world, "child-2", &uid).await;
        world.settle().await;
        let second =
            "ConfigMap updated; ConfigMap default/child-1 created; ConfigMap default/child-2 created";
        assert_eq!(of(&notes, "a"), ["ConfigMap created", second]);
    });
}

#[test]
fn a_retry_has_the_triggers_of_the_run_that_failed_and_what_came_since() {
    World::run(2, |world| async move {
        let notes = first_run(&world, || Err(Error::message("not yet"))).await;
        let uid = world.create("a").await.metadata.uid.unwrap();
        world.clock.sleep(Duration::from_millis(20)).await;
        create_child(&world, "child", &uid).await;
        world.settle().await;
        assert_eq!(
            of(&notes, "a"),
            ["ConfigMap created", "ConfigMap created; ConfigMap default/child created"]
        );
        // Triggers that a run has seen are not repeated.
        world.touch("a", "1").await;
        world.settle().await;
        assert_eq!(of(&notes, "a")[2..], ["ConfigMap updated"]);
    });
}

#[test]
fn what_comes_while_a_requeue_waits_is_told_together_with_it() {
    World::run(3, |world| async move {
        let notes = first_run(&world, || Ok(Action::requeue_after(Duration::from_secs(60)))).await;
        world.create("a").await;
        world.settle().await;
        assert_eq!(of(&notes, "a"), ["ConfigMap created"]);
        world.touch("a", "1").await;
        world.settle().await;
        // It runs at once, together with the scheduled request: there is no third run.
        world.clock.sleep(Duration::from_secs(600)).await;
        assert_eq!(of(&notes, "a")[1..], ["ConfigMap requeued; ConfigMap updated"]);
    });
}

/// Time between the first run of an object and the second, which its reconciler requested.
fn gap(seed: u64, action: Action) -> Duration {
    let (sender, receiver) = std::sync::mpsc::channel();
    World::run(seed, |world| async move {
        let notes = first_run(&world, move || Ok(action)).await;
        world.create("a").await;
        world.until("it ran again", || notes.len() == 2).await;
        let all = notes.all();
        assert_eq!((&*all[1].triggers, all[1].attempt), ("ConfigMap requeued", 1));
        sender.send(all[1].at.duration_since(all[0].at)).expect("the other side is there");
    });
    receiver.recv().expect("it was sent")
}

#[test]
fn a_requeue_comes_exactly_at_its_time_and_later_only_if_it_asks_for_jitter() {
    let (minute, second) = (Duration::from_secs(60), Duration::from_secs(1));
    // `first_run` takes a tenth of a second.
    let exact = minute + Duration::from_millis(100);
    for seed in 40..44 {
        assert_eq!(gap(seed, Action::requeue_after(minute)), exact);
    }
    let gaps: Vec<_> = (40..44).map(|seed| gap(seed, Action::requeue_after(minute).jitter(second))).collect();
    assert!(gaps.iter().all(|gap| (exact..=exact + second).contains(gap)), "{gaps:?}");
    assert!(gaps.windows(2).any(|pair| pair[0] != pair[1]), "{gaps:?}");
}

#[test]
fn triggers_are_counted_by_source_and_cause() {
    World::run(5, |world| async move {
        world.create("a").await;
        let notes = first_run(&world, || Err(Error::message("not yet"))).await;
        world.until("it ran again", || notes.len() == 2).await;
        world.touch("a", "1").await;
        world.settle().await;
        let metric = |cause| {
            let labels = format!("{{controller=\"configmap\",source=\"ConfigMap\",cause=\"{cause}\"}}");
            world.metric(&format!("bowline_reconcile_triggers_total{labels}"))
        };
        assert_eq!((metric("initial"), metric("updated")), (2, 1));
    });
}

#[test]
fn what_led_to_a_run_that_did_not_fail_is_not_told_again_however_often_it_is_requeued() {
    for (number, again) in
        [Action::requeue_after(Duration::from_secs(1)), Action::back_off()].into_iter().enumerate()
    {
        World::run(6 + number as u64, |world| async move {
            let notes = Notes::default();
            let (written, calls) = (notes.clone(), AtomicU32::new(0));
            let controller = world
                .cluster
                .controller::<ConfigMap>()
                .build(move |context: Context, request: Request| {
                    written.write(&context, &request);
                    let is_last = calls.fetch_add(1, Ordering::Relaxed) == 5;
                    async move { Ok::<_, Error>(if is_last { Action::done() } else { again }) }
                })
                .unwrap();
            controller.start().unwrap();
            controller.wait_ready().await.unwrap();
            world.create("a").await;
            world.until("it ran five times more", || notes.len() == 6).await;
            assert_eq!(notes.triggers()[0], "ConfigMap created");
            assert_eq!(notes.triggers()[1..], ["ConfigMap requeued"; 5]);
            let metric = |cause| {
                let labels = format!("{{controller=\"configmap\",source=\"ConfigMap\",cause=\"{cause}\"}}");
                world.metric(&format!("bowline_reconcile_triggers_total{labels}"))
            };
            assert_eq!((metric("created"), metric("requeued")), (1, 5));
        });
    }
}

/// The day of the test and, an hour later, the time for which its object is scheduled.
fn noon() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000)
}

/// A controller whose object asked at noon to run again an hour later.
async fn waiting_for_a_time(world: &World) -> (Controller, Notes) {
    world.clock.set_wall(noon());
    let notes = Notes::default();
    let written = notes.clone();
    let builder = world.cluster.controller::<ConfigMap>();
    let controller =
        builder.build(move |context: Context, request: Request| {
            written.write(&context, &request);
            let is_early = context.clock().system_time() < noon() + HOUR;
            async move {
                Ok::<_, Error>(if is_early { Action::requeue_at(noon() + HOUR) } else { Action::done() })
            }
        });
    let controller = controller.expect("it can be built");
    controller.start().expect("it can be started");
    controller.wait_ready().await.expect("it is ready");
    world.create("a").await;
    world.settle().await;
    assert_eq!(notes.triggers(), ["ConfigMap created"]);
    assert_eq!(controller.queue_stats().delayed, 1);
    assert_eq!(controller.delayed(9), [(Request::new("default", "a"), noon() + HOUR)]);
    (controller, notes)
}

#[test]
fn a_requeue_at_a_time_comes_exactly_then() {
    World::run(50, |world| async move {
        let (controller, notes) = waiting_for_a_time(&world).await;
        world.clock.sleep(HOUR).await;
        assert_eq!(notes.len(), 2);
        let (at, now) = (notes.all()[1].at, world.clock.now());
        assert_eq!(world.clock.system_time() - now.duration_since(at), noon() + HOUR);
        assert_eq!(notes.triggers()[1], "ConfigMap requeued");
        world.clock.sleep(2 * HOUR).await;
        assert_eq!((notes.len(), controller.delayed(9)), (2, vec![]));
    });
}

#[test]
fn a_requeue_at_a_time_survives_a_wall_clock_that_is_set_back() {
    World::run(51, |world| async move {
        let (controller, notes) = waiting_for_a_time(&world).await;
        world.clock.sleep(HOUR / 2).await;
        world.clock.set_wall(noon() - 3 * HOUR);
        world.clock.sleep(Duration::from_secs(4 * 3600 - 1)).await;
        assert_eq!((notes.len(), controller.queue_stats().delayed), (1, 1), "it is not one o'clock yet");
        world.clock.sleep(Duration::from_secs(2)).await;
        assert_eq!(notes.len(), 2);
    });
}

#[test]
fn a_requeue_at_a_time_comes_within_half_a_minute_after_the_wall_clock_was_set_forward() {
    World::run(52, |world| async move {
        let (_controller, notes) = waiting_for_a_time(&world).await;
        world.clock.sleep(Duration::from_secs(100)).await;
        world.clock.set_wall(noon() + 2 * HOUR);
        world.clock.sleep(Duration::from_secs(30)).await;
        assert_eq!(notes.triggers()[1..], ["ConfigMap requeued"]);
    });
}

#[test]
fn what_happens_before_the_time_takes_the_place_of_the_requeue() {
    World::run(53, |world| async move {
        let notes = Notes::default();
        let (written, calls) = (notes.clone(), AtomicU32::new(0));
        let builder = world.cluster.controller::<ConfigMap>();
        let controller = builder.build(move |context: Context, request: Request| {
            written.write(&context, &request);
            let action = match calls.fetch_add(1, Ordering::Relaxed) {
                0 => Action::requeue_at(context.clock().system_time() + HOUR),
                _ => Action::done(),
            };
            async move { Ok::<_, Error>(action) }
        });
        let controller = controller.unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.settle().await;
        world.touch("a", "1").await;
        world.settle().await;
        assert_eq!((notes.len(), controller.queue_stats().delayed), (2, 0));
        world.clock.sleep(2 * HOUR).await;
        assert_eq!(notes.triggers(), ["ConfigMap created", "ConfigMap updated"]);
    });
}

#[test]
fn what_waits_for_a_time_is_counted_when_the_controller_stops_and_a_time_in_the_past_is_now() {
    World::run(54, |world| async move {
        let (controller, notes) = waiting_for_a_time(&world).await;
        assert_eq!(controller.stop().await.unwrap().waiting(), 1);
        assert_eq!((controller.queue_stats().delayed, controller.delayed(9)), (0, vec![]));
        world.clock.sleep(2 * HOUR).await;
        assert_eq!(notes.len(), 1);
    });
    assert!(gap(55, Action::requeue_at(SystemTime::UNIX_EPOCH)) < Duration::from_millis(110));
}

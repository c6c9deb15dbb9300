//! Why a reconcile runs: complete, whatever happens to the request on its way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bowline_runtime::{Action, Context, Error, Request};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::world::{Notes, World};

/// The first run of an object takes a while and then gives this; all others are done at once.
async fn first_run(world: &World, end: fn() -> Result<Action, Error>) -> Notes {
    let notes = Notes::default();
    let (written, calls) = (notes.clone(), Arc::new(AtomicU32::new(0)));
    let controller = world
        .cluster
        .controller::<ConfigMap>()
        .owns::<ConfigMap>()
        .build(move |context: Context, request: Request| {
            written.write(&context, &request);
            let is_first = request.name() == "a" && calls.fetch_add(1, Ordering::Relaxed) == 0;
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
    controller.ready().await.expect("it is ready");
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
        // What it was told in time is not told again.
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
        // It comes at once, and the appointment with it: there is no third run.
        world.clock.sleep(Duration::from_secs(600)).await;
        assert_eq!(of(&notes, "a")[1..], ["ConfigMap requeued; ConfigMap updated"]);
    });
}

#[test]
fn a_requeue_comes_at_its_time_and_a_tenth_later_at_most() {
    World::run(4, |world| async move {
        let notes = first_run(&world, || Ok(Action::requeue_after(Duration::from_secs(60)))).await;
        world.create("a").await;
        world.until("it ran again", || notes.len() == 2).await;
        let all = notes.all();
        let gap = all[1].at.since(all[0].at).as_secs_f64() - 0.1;
        assert!((60.0..66.0).contains(&gap), "{gap}");
        assert_eq!(all[1].triggers, "ConfigMap requeued");
        assert_eq!(all[1].attempt, 1);
    });
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
        assert_eq!((metric("found"), metric("updated")), (2, 1));
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
            controller.ready().await.unwrap();
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

//! The start of the controller, until sync, and its end.

use std::time::Duration;

use pod_printer::SYNC_LIMIT;

use crate::world::World;

#[test]
fn nothing_is_worked_on_before_the_cache_is_in_sync() {
    World::run(|world| async move {
        world.create("there").await;
        let _held = world.hold_reads();
        let (_stop, _running) = world.start();
        // A lookup now would take it for deleted.
        world.controller.queue().add("default/there".to_owned());
        world.settle().await;
        assert!(world.paper.printed().is_empty());
        assert_eq!(world.controller.queue().len(), 1);

        world.answer_reads();
        world.settle().await;
        assert_eq!(world.paper.printed(), ["Sync/Add/Update for Pod there"]);
    });
}

#[test]
fn a_cache_that_does_not_sync_is_an_error_with_the_reason() {
    World::run(|world| async move {
        world.refuse_reads();
        let start = world.clock.now();
        let (_stop, running) = world.start();
        world.controller.queue().add("default/any".to_owned());
        let error = running.await.unwrap().unwrap_err().to_string();
        assert_eq!(world.clock.now().duration_since(start).as_secs(), SYNC_LIMIT.as_secs());
        assert!(error.starts_with("not in sync after 30s: pods (v1) in namespace default ("), "{error}");
        assert!(error.contains("pods is forbidden: this is a test"), "{error}");
        assert!(world.paper.printed().is_empty());
        assert!(world.logged().contains("cannot list or watch pods"), "it was logged meanwhile");
    });
}

#[test]
fn a_permission_that_comes_late_is_not_too_late() {
    World::run(|world| async move {
        world.create("there").await;
        world.refuse_reads();
        let (_stop, _running) = world.start();
        world.clock.sleep(SYNC_LIMIT / 3).await;
        world.answer_reads();
        world.clock.sleep(SYNC_LIMIT).await;
        assert_eq!(world.paper.printed(), ["Sync/Add/Update for Pod there"]);
    });
}

#[test]
fn what_is_in_line_when_it_is_stopped_is_still_worked_on() {
    World::run(|world| async move {
        let (stop, running) = world.start();
        world.settle().await;
        // More than a worker does before others get a turn.
        for number in 0..10_000 {
            world.controller.queue().add(format!("default/pod-{number}"));
        }
        stop.send_replace(true);
        running.await.unwrap().unwrap();
        assert_eq!(world.paper.printed().len(), 10_000);
    });
}

#[test]
fn after_the_end_nothing_is_worked_on_and_the_informer_tells_nothing() {
    World::run(|world| async move {
        let (stop, running) = world.start();
        world.settle().await;
        stop.send_replace(true);
        running.await.unwrap().unwrap();
        world.create("later").await;
        world.settle().await;
        assert_eq!(world.controller.queue().stats().dropped, 0, "no key came from the informer");
        world.controller.queue().add("default/later".to_owned());
        world.settle().await;
        assert!(world.paper.printed().is_empty());
        assert!(world.logged().ends_with("INFO stopped\n"));
    });
}

#[test]
fn a_key_that_waits_for_its_retry_does_not_hold_up_the_end() {
    World::run(|world| async move {
        world.paper.prints_if(|_| false);
        let (stop, running) = world.start();
        world.create("bad").await;
        world.clock.sleep(Duration::from_millis(100)).await;
        let start = world.clock.now();
        stop.send_replace(true);
        running.await.unwrap().unwrap();
        assert!(world.clock.now().duration_since(start) < Duration::from_millis(10));
    });
}

#[test]
fn a_stop_before_the_cache_is_in_sync_ends_it_at_once_and_without_work() {
    World::run(|world| async move {
        let _held = world.hold_reads();
        let (stop, running) = world.start();
        world.controller.queue().add("default/any".to_owned());
        world.settle().await;
        let start = world.clock.now();
        stop.send_replace(true);
        running.await.unwrap().unwrap();
        assert!(world.clock.now().duration_since(start) < Duration::from_millis(10));
        assert!(world.paper.printed().is_empty());
    });
}

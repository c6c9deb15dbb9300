//! Shutdown and drain.

use super::*;
use bowline_workqueue::{AddOptions, DrainResult};

#[test]
fn shutdown_hands_out_ready_keys_then_ends() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add("a");
        queue.add("b");
        assert!(!queue.is_shutting_down());
        queue.shutdown();
        queue.shutdown();
        assert!(queue.is_shutting_down());
        assert_eq!(*queue.get().await.unwrap().key(), "a");
        assert_eq!(*queue.get().await.unwrap().key(), "b");
        assert!(queue.get().await.is_none());
        assert!(queue.get().await.is_none());
    });
}

#[test]
fn shutdown_wakes_every_worker_that_waits() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add_after("never reached", SECOND);
        let scope = clock.scope("workers");
        for worker in ["one", "two"] {
            let queue = queue.clone();
            scope.spawn(worker, async move { assert!(queue.get().await.is_none()) });
        }
        clock.sleep(SECOND / 2).await;
        queue.shutdown();
        scope.wait_ended().await;
        assert_eq!(scope.panicked(), 0);
        assert_eq!(clock.now().duration_since(bowline_clock::Instant::ZERO), SECOND / 2);
    });
}

#[test]
fn delayed_keys_are_dropped_and_counted_at_shutdown() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add("running");
        let item = queue.try_get().unwrap();
        queue.add_after("running", SECOND);
        queue.add_after("waiting", SECOND);
        queue.shutdown();
        item.done();
        assert_eq!(queue.stats().dropped, 2);
        assert_eq!(queue.stats().delayed, 0);
        assert!(queue.get().await.is_none());
    });
}

#[test]
fn a_running_key_added_before_shutdown_still_runs_again() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add("a");
        let item = queue.try_get().unwrap();
        queue.add("a");
        queue.shutdown();
        item.done();
        assert_eq!(work_off(&queue), ["a"]);
        assert_eq!(queue.stats().dropped, 0);
    });
}

#[test]
fn adding_after_shutdown_is_dropped_and_counted() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add("a");
        let item = queue.try_get().unwrap();
        queue.shutdown();
        queue.add("b");
        queue.add_after("b", SECOND);
        queue.add_rate_limited("b");
        queue.add_all([("c", AddOptions::default()), ("d", AddOptions::default())]);
        item.requeue_after(SECOND);
        assert_eq!(queue.stats().dropped, 6);
        assert!(queue.get().await.is_none());
    });
}

#[test]
fn drain_waits_for_ready_and_processing_keys() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        for key in ["a", "b", "c"] {
            queue.add(key);
        }
        let scope = clock.scope("workers");
        let (inner, inner_clock) = (queue.clone(), clock.clone());
        scope.spawn("worker", async move {
            while let Some(item) = inner.get().await {
                inner_clock.sleep(SECOND).await;
                item.done();
            }
        });
        assert_eq!(queue.shutdown_with_drain(SECOND * 60).await, DrainResult::Complete);
        assert_eq!(clock.now().duration_since(bowline_clock::Instant::ZERO), SECOND * 3);
    });
}

#[test]
fn drain_times_out_and_reports_the_remaining_keys() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add("stuck");
        let stuck = queue.try_get().unwrap();
        queue.add("never taken");
        let drained = queue.shutdown_with_drain(SECOND).await;
        assert_eq!(drained, DrainResult::TimedOut { ready: 1, processing: 1 });
        assert_eq!(clock.now().duration_since(bowline_clock::Instant::ZERO), SECOND);
        drop(stuck);
    });
}

#[test]
fn two_drains_at_once_both_end() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add("a");
        let item = queue.try_get().unwrap();
        let scope = clock.scope("drains");
        let drains = ["one", "two"].map(|name| {
            let queue = queue.clone();
            scope.spawn(name, async move { queue.shutdown_with_drain(SECOND * 60).await })
        });
        clock.sleep(SECOND).await;
        item.done();
        for drain in drains {
            assert_eq!(drain.await.unwrap(), DrainResult::Complete);
        }
        assert_eq!(clock.now().duration_since(bowline_clock::Instant::ZERO), SECOND);
    });
}

#[test]
fn draining_an_empty_queue_ends_at_once() {
    simulate(|clock| async move {
        let queue = Queue::new(clock);
        queue.add_after("dropped", SECOND);
        assert_eq!(queue.shutdown_with_drain(Duration::ZERO).await, DrainResult::Complete);
        assert_eq!(queue.stats().dropped, 1);
    });
}

#[test]
fn keys_due_before_shutdown_are_handed_out() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add_after("due", SECOND);
        clock.sleep(SECOND * 60).await;
        queue.shutdown();
        assert_eq!(work_off(&queue), ["due"]);
        assert_eq!(queue.stats().dropped, 0);
    });
}

/// Calls the queue when it is dropped.
struct Nosy(WorkQueue<&'static str, Nosy>);

impl Coalesce for Nosy {
    fn coalesce(&mut self, _newer: Self) {}
}

impl Drop for Nosy {
    fn drop(&mut self) {
        assert!(self.0.is_shutting_down());
    }
}

#[test]
fn a_payload_that_a_shutdown_drops_may_call_the_queue() {
    simulate(|clock| async move {
        let queue = WorkQueue::<&str, Nosy>::new(clock);
        queue.add_with("a", AddOptions::new(Nosy(queue.clone())).after(SECOND));
        queue.shutdown();
        queue.add_with("b", AddOptions::new(Nosy(queue.clone())));
        assert_eq!(queue.stats().dropped, 2);
    });
}

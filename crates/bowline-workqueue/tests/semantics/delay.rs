//! Delayed keys.

use super::*;
use bowline_clock::Instant;
use bowline_workqueue::AddOptions;

/// Waits for the next key, and returns it with its time.
async fn next(clock: &Clock, queue: &Queue) -> (&'static str, Duration) {
    let item = queue.get().await.unwrap();
    (*item.key(), clock.now().duration_since(Instant::ZERO))
}

#[test]
fn a_delayed_key_is_ready_at_its_deadline_and_not_before() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add_after("a", SECOND * 2);
        assert_eq!((queue.len(), queue.stats().delayed), (0, 1));
        assert!(queue.try_get().is_none());
        assert_eq!(next(&clock, &queue).await, ("a", SECOND * 2));
    });
}

#[test]
fn keys_are_ordered_by_deadline_and_then_by_addition() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add_after("late", SECOND * 3);
        queue.add_after("first", SECOND);
        queue.add_after("second", SECOND);
        queue.add("now");
        clock.sleep(SECOND * 5).await;
        assert_eq!(work_off(&queue), ["now", "first", "second", "late"]);
    });
}

#[test]
fn the_earliest_of_several_deadlines_wins() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add_after("a", SECOND * 10);
        queue.add_after("a", SECOND * 3);
        queue.add_after("a", SECOND * 7);
        assert_eq!(queue.stats().delayed, 1);
        assert_eq!(next(&clock, &queue).await, ("a", SECOND * 3));
        clock.sleep(SECOND * 60).await;
        assert!(queue.try_get().is_none(), "the later deadlines are gone");
    });
}

#[test]
fn an_earlier_deadline_reaches_a_worker_that_already_waits() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add_after("late", SECOND * 100);
        let scope = clock.scope("workers");
        let (inner_clock, inner) = (clock.clone(), queue.clone());
        let worker = scope.spawn("worker", async move { next(&inner_clock, &inner).await });
        clock.sleep(SECOND).await;
        queue.add_after("early", SECOND * 4);
        assert_eq!(worker.await.unwrap(), ("early", SECOND * 5));
    });
}

#[test]
fn delayed_keys_can_be_listed_and_stay() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        assert_eq!(queue.delayed(9), []);
        for (key, seconds) in [("c", 3), ("a", 1), ("b", 2), ("moved", 9)] {
            queue.add_after(key, SECOND * seconds);
        }
        queue.add("ready");
        queue.add("moved");
        let at = |seconds| clock.now() + SECOND * seconds;
        assert_eq!(queue.delayed(2), [("a", at(1)), ("b", at(2))]);
        assert_eq!(queue.delayed(usize::MAX), [("a", at(1)), ("b", at(2)), ("c", at(3))]);
        clock.sleep(SECOND).await;
        assert_eq!(queue.delayed(1), [("b", at(1))], "one whose time has come does not wait for it");
        clock.sleep(SECOND * 2).await;
        assert_eq!(work_off(&queue), ["ready", "moved", "a", "b", "c"]);
    });
}

#[test]
fn a_ready_key_is_not_delayed_again() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add("a");
        queue.add_after("a", SECOND);
        assert_eq!((queue.len(), queue.stats().delayed), (1, 0));
        assert_eq!(work_off(&queue), ["a"]);
        clock.sleep(SECOND * 2).await;
        assert!(queue.is_empty());
    });
}

#[test]
fn adding_a_delayed_key_now_brings_it_forward_once() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add_after("a", SECOND);
        queue.add("a");
        assert_eq!(work_off(&queue), ["a"]);
        clock.sleep(SECOND * 2).await;
        assert!(queue.is_empty(), "its deadline is gone");
    });
}

#[test]
fn a_deadline_that_passes_during_a_run_waits_for_its_end() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add("a");
        let item = queue.try_get().unwrap();
        queue.add_after("a", SECOND);
        clock.sleep(SECOND * 2).await;
        assert!(queue.try_get().is_none());
        item.done();
        assert_eq!(work_off(&queue), ["a"]);
    });
}

#[test]
fn a_run_that_ends_before_the_deadline_keeps_the_deadline() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add("a");
        let item = queue.try_get().unwrap();
        queue.add_after("a", SECOND);
        item.done();
        assert!(queue.try_get().is_none());
        assert_eq!(next(&clock, &queue).await, ("a", SECOND));
    });
}

#[test]
fn zero_and_a_deadline_in_the_past_are_now() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        clock.sleep(SECOND).await;
        queue.add_after("zero", Duration::ZERO);
        queue.add_with("past", AddOptions::default().at(Instant::ZERO));
        queue.add_with("this instant", AddOptions::default().at(clock.now()));
        assert_eq!((queue.len(), queue.stats().delayed), (3, 0));
        assert_eq!(work_off(&queue), ["zero", "past", "this instant"]);
    });
}

#[test]
fn the_maximum_duration_is_never_due() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add_after("never", Duration::MAX);
        queue.add_with("never either", AddOptions::default().at(Instant::MAX));
        queue.add_after("soon", SECOND);
        assert_eq!(next(&clock, &queue).await, ("soon", SECOND));
        let century = SECOND * 3_155_760_000;
        assert!(clock.timeout(century, queue.get()).await.is_err());
        queue.add("never");
        assert_eq!(work_off(&queue), ["never"]);
    });
}

#[test]
fn the_earliest_of_delay_deadline_and_rate_limit_counts() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        let add = AddOptions::default().after(SECOND * 9).at(Instant::ZERO + SECOND * 5).rate_limited();
        queue.add_with("a", add);
        assert_eq!(next(&clock, &queue).await, ("a", Duration::from_millis(5)));
        assert_eq!(queue.num_requeues(&"a"), 1);
    });
}

#[test]
fn a_key_due_while_all_workers_were_busy_precedes_later_keys() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add("busy");
        let busy = queue.try_get().unwrap();
        queue.add_after("due", SECOND);
        clock.sleep(SECOND * 60).await;
        queue.add("later");
        queue.add("busy");
        busy.done();
        assert_eq!(work_off(&queue), ["due", "later", "busy"]);

        queue.add("busy");
        let busy = queue.try_get().unwrap();
        queue.add("busy");
        queue.add_after("due", SECOND);
        clock.sleep(SECOND * 60).await;
        busy.done();
        assert_eq!(work_off(&queue), ["due", "busy"]);
    });
}

#[test]
fn a_simulation_does_not_leap_to_the_end_of_time() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add_after("never", Duration::MAX);
        let scope = clock.scope("workers");
        let inner = queue.clone();
        scope.spawn("worker", async move { assert!(inner.get().await.is_none()) });
        clock.sleep(SECOND).await;
        queue.shutdown();
        scope.wait_ended().await;
        assert_eq!((scope.panicked(), clock.now().duration_since(Instant::ZERO)), (0, SECOND));
    });
}

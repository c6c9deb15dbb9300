//! Order of keys: priority, FIFO and aging.

use super::*;
use bowline_workqueue::AddOptions;

fn at(priority: i32) -> AddOptions {
    AddOptions::default().priority(priority)
}

#[test]
fn higher_priorities_come_first_and_each_is_fifo() {
    simulate(|clock| async move {
        let queue = Queue::new(clock);
        for (key, priority) in
            [("low", -1), ("a", 0), ("high", 7), ("b", 0), ("high too", 7), ("lowest", i32::MIN)]
        {
            queue.add_with(key, at(priority));
        }
        assert_eq!(work_off(&queue), ["high", "high too", "a", "b", "low", "lowest"]);
    });
}

#[test]
fn peek_returns_the_next_keys_and_leaves_them_in_the_queue() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        assert!(queue.peek(3).is_empty());
        for (key, priority) in [("low", -1), ("a", 0), ("high", 7), ("b", 0)] {
            queue.add_with(key, at(priority));
        }
        queue.add_after("due", SECOND);
        assert_eq!(queue.peek(0), [""; 0]);
        assert_eq!(queue.peek(2), ["high", "a"]);
        assert_eq!(queue.peek(usize::MAX), ["high", "a", "b", "low"]);
        let item = queue.try_get().unwrap();
        queue.add("high");
        assert_eq!(
            (*item.key(), queue.peek(2)),
            ("high", vec!["a", "b"]),
            "who is with a worker is not in line"
        );
        item.done();
        clock.sleep(SECOND).await;
        assert_eq!(queue.peek(9), ["high", "a", "b", "due", "low"]);
        assert_eq!(work_off(&queue), ["high", "a", "b", "due", "low"]);
    });
}

#[test]
fn a_duplicate_takes_the_higher_priority_and_goes_to_its_end() {
    simulate(|clock| async move {
        let queue = Queue::new(clock);
        queue.add_with("a", at(-5));
        queue.add_with("b", at(3));
        queue.add_with("a", at(3));
        queue.add_with("b", at(-9));
        assert_eq!(work_off(&queue), ["b", "a"]);
    });
}

#[test]
fn a_duplicate_of_a_delayed_key_takes_the_higher_priority_and_the_earlier_time() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add_with("a", at(5).after(SECOND * 9));
        queue.add_with("a", at(1).after(SECOND));
        queue.add_with("b", at(3).after(SECOND));
        clock.sleep(SECOND).await;
        assert_eq!(work_off(&queue), ["a", "b"]);
    });
}

#[test]
fn an_add_without_a_priority_raises_a_low_one_to_zero() {
    simulate(|clock| async move {
        let queue = Queue::new(clock);
        queue.add_with("listed", at(-100));
        queue.add_with("changed", at(-100));
        queue.add("changed");
        assert_eq!(work_off(&queue), ["changed", "listed"]);
    });
}

#[test]
fn a_requeue_keeps_its_priority_by_default() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add_with("kept", at(-7));
        queue.try_get().unwrap().requeue_rate_limited();
        clock.sleep(SECOND).await;
        let item = queue.try_get().unwrap();
        assert_eq!(item.priority(), -7);
        item.requeue_after(SECOND);
        clock.sleep(SECOND).await;
        let item = queue.try_get().unwrap();
        assert_eq!(item.priority(), -7);
        item.with_priority(4).requeue_after(Duration::ZERO);
        assert_eq!(queue.try_get().unwrap().priority(), 4);
    });
}

#[test]
fn an_add_to_a_running_key_takes_at_least_the_priority_of_the_run() {
    simulate(|clock| async move {
        let queue = Queue::new(clock);
        for (priority, expected) in [(5, 5), (-5, 0)] {
            queue.add_with("a", at(priority));
            let item = queue.try_get().unwrap();
            queue.add("a");
            item.done();
            assert_eq!(queue.try_get().unwrap().priority(), expected);
        }
    });
}

#[test]
fn every_sixteenth_dispatch_takes_the_oldest_key() {
    simulate(|clock| async move {
        let queue = WorkQueue::<u32>::new(clock);
        for older in 0..3 {
            queue.add_with(older, at(-1000));
        }
        // A key with a higher priority is always ready.
        let mut waited = Vec::new();
        for hand_out in 1.. {
            queue.add_with(100 + hand_out, at(10));
            let item = queue.try_get().unwrap();
            if *item.key() < 3 {
                waited.push((*item.key(), hand_out));
            }
            if waited.len() == 3 {
                break;
            }
        }
        assert_eq!(waited, [(0, 16), (1, 32), (2, 48)], "16 × (older entries + 1) at the most");
    });
}

#[test]
fn a_raised_key_keeps_its_age() {
    simulate(|clock| async move {
        let queue = WorkQueue::<u32>::new(clock);
        queue.add_with(0, at(-2));
        queue.add_with(1, at(-3));
        queue.add_with(0, at(-1)); // Raised last, but still the oldest.
        let mut order = Vec::new();
        for hand_out in 1..=16 {
            queue.add_with(100 + hand_out, at(10));
            order.push(*queue.try_get().unwrap().key());
        }
        assert_eq!(order[15], 0);
    });
}

#[test]
fn a_hundred_thousand_priorities_are_fast() {
    let queue = WorkQueue::<i32>::new(Clock::real());
    queue.add_all((0..100_000).map(|key| (key, at(key))));
    let order = work_off(&queue);
    assert_eq!(order.len(), 100_000);
    assert_eq!(order[0], 99_999);
}

//! Adding many keys at once.

use super::*;
use bowline_clock::Instant;
use bowline_workqueue::{AddOptions, BATCH};
use std::task::{Context, Waker};

#[test]
fn a_batch_equals_single_adds_in_order() {
    let queue = WorkQueue::<usize>::new(Clock::real());
    let n = BATCH * 3 + 1;
    queue.add_all((0..n).map(|key| (key, AddOptions::default())));
    queue.add_all((0..n).map(|key| (key, AddOptions::default())));
    assert_eq!(queue.len(), n);
    assert_eq!(work_off(&queue), (0..n).collect::<Vec<_>>());
}

#[test]
fn each_key_of_a_batch_has_its_own_options() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add_all([
            ("later", AddOptions::default().after(SECOND)),
            ("low", AddOptions::default().priority(-1)),
            ("limited", AddOptions::default().rate_limited()),
            ("now", AddOptions::default()),
            ("limited too", AddOptions::default().rate_limited()),
        ]);
        assert_eq!(work_off(&queue), ["now", "low"]);
        clock.sleep(Duration::from_millis(5)).await;
        assert_eq!(work_off(&queue), ["limited", "limited too"]);
        assert_eq!((queue.num_requeues(&"limited"), queue.num_requeues(&"now")), (1, 0));
        clock.sleep(SECOND).await;
        assert_eq!(work_off(&queue), ["later"]);
    });
}

#[test]
fn the_iterator_may_call_the_queue() {
    simulate(|clock| async move {
        let queue = WorkQueue::<usize>::new(clock);
        queue.add_all((0..BATCH * 2).map(|key| (key.min(queue.len()), AddOptions::default())));
        assert_eq!(queue.len(), 2, "the first batch saw an empty queue, the second one key");
    });
}

#[test]
fn a_batch_wakes_as_many_workers_as_it_has_keys() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        let _workers = three_holders(&clock, &queue);
        clock.sleep(SECOND).await;
        queue.add_all(["a", "b", "c"].map(|key| (key, AddOptions::default())));
        clock.sleep(SECOND).await;
        assert_eq!(queue.stats().processing, 3);
    });
}

#[test]
fn delays_of_a_batch_start_when_it_is_added() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        let slow = ["a"].into_iter().map(|key| {
            // The iterator takes a minute: the first poll moves simulated time on.
            let minute = std::pin::pin!(tokio::time::advance(SECOND * 60));
            let _ = minute.poll(&mut Context::from_waker(Waker::noop()));
            (key, AddOptions::default().after(SECOND))
        });
        queue.add_all(slow);
        assert!(clock.now() >= Instant::ZERO + SECOND * 60);
        assert_eq!((queue.len(), queue.stats().delayed), (0, 1));
    });
}

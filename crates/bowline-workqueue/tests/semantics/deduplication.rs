//! One entry while waiting, one more run while processing, never two workers.

use super::*;

#[test]
fn a_key_added_many_times_while_waiting_is_one_run() {
    simulate(|clock| async move {
        let queue = Queue::new(clock);
        for _ in 0..5 {
            queue.add("a");
        }
        queue.add("b");
        assert_eq!(queue.len(), 2);
        assert_eq!(work_off(&queue), ["a", "b"]);
    });
}

#[test]
fn a_key_added_while_processing_runs_once_more_and_not_before_the_run_ends() {
    simulate(|clock| async move {
        let queue = Queue::new(clock);
        queue.add("a");
        let item = queue.try_get().unwrap();
        for _ in 0..3 {
            queue.add("a");
        }
        assert_eq!(queue.len(), 0, "it waits for its own run, not in line");
        assert!(queue.try_get().is_none());
        item.done();
        assert_eq!(queue.len(), 1);
        assert_eq!(work_off(&queue), ["a"]);
        assert_eq!(work_off(&queue), [""; 0]);
    });
}

#[test]
fn a_requeued_key_goes_behind_keys_that_became_ready_meanwhile() {
    simulate(|clock| async move {
        let queue = Queue::new(clock);
        queue.add("a");
        let item = queue.try_get().unwrap();
        queue.add("a");
        queue.add("b");
        item.done();
        assert_eq!(work_off(&queue), ["b", "a"]);
    });
}

#[test]
fn dropping_the_future_of_a_worker_ends_its_run() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add("a");
        let scope = clock.scope("workers");
        let inner = queue.clone();
        scope.spawn("stuck", async move {
            let _item = inner.get().await;
            std::future::pending::<()>().await;
        });
        clock.sleep(SECOND).await;
        assert_eq!(queue.stats().processing, 1);
        queue.add("a");
        scope.abort();
        scope.wait_ended().await;
        assert_eq!(work_off(&queue), ["a"]);
        assert_eq!(queue.stats().processing, 0);
    });
}

#[test]
fn a_panicking_worker_ends_its_run() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add("a");
        let scope = clock.scope("workers");
        let inner = queue.clone();
        let worker = scope.spawn("clumsy", async move {
            let item = inner.get().await;
            panic!("dropped {item:?}");
        });
        assert!(worker.await.is_err());
        queue.add("a");
        assert_eq!(work_off(&queue), ["a"]);
    });
}

#[test]
fn handles_share_one_queue() {
    simulate(|clock| async move {
        let queue = Queue::new(clock);
        queue.clone().add("a");
        assert_eq!(work_off(&queue), ["a"]);
        assert!(queue.is_empty());
    });
}

//! Waiting workers, their wake-ups and the timer.

use super::*;
use bowline_clock::Instant;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

#[test]
fn workers_get_keys_in_the_order_of_their_arrival() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        let scope = clock.scope("workers");
        let served = Arc::new(Mutex::new(Vec::new()));
        for worker in 0..3 {
            let (queue, served) = (queue.clone(), served.clone());
            scope.spawn(format!("worker {worker}"), async move {
                let item = queue.get().await.unwrap();
                served.lock().unwrap().push((worker, *item.key()));
            });
        }
        clock.sleep(SECOND).await;
        for key in ["a", "b", "c"] {
            queue.add(key);
        }
        clock.sleep(SECOND).await;
        assert_eq!(*served.lock().unwrap(), [(0, "a"), (1, "b"), (2, "c")]);
    });
}

#[test]
fn an_unused_wake_up_of_a_dropped_worker_is_passed_on() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        let mut first = Box::pin(queue.get());
        assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let scope = clock.scope("workers");
        let inner = queue.clone();
        let second = scope.spawn("second", async move { *inner.get().await.unwrap().key() });
        clock.sleep(SECOND).await;
        queue.add("a");
        drop(first);
        assert_eq!(clock.timeout(SECOND, second).await.expect("the second is woken").unwrap(), "a");
    });
}

#[test]
fn the_timer_is_passed_on_when_its_worker_is_dropped() {
    simulate(|clock| async move {
        let queue = WorkQueue::<u32>::new(clock.clone());
        queue.add_after(7, SECOND * 2);
        let scope = clock.scope("workers");
        let (inner, inner_clock) = (queue.clone(), clock.clone());
        // The worker with the timer is dropped; the other waits without one.
        let keeper =
            scope.spawn("keeper", async move { inner_clock.timeout(SECOND, inner.get()).await.is_err() });
        let inner = queue.clone();
        let other = scope.spawn("other", async move { *inner.get().await.unwrap().key() });
        assert!(keeper.await.unwrap());
        assert_eq!(clock.timeout(SECOND * 5, other).await.unwrap().unwrap(), 7);
    });
}

#[test]
fn the_timer_is_passed_on_when_its_worker_gets_a_key() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add_after("later", SECOND * 2);
        let scope = clock.scope("workers");
        let inner = queue.clone();
        let keeper = scope.spawn("keeper", async move {
            let item = inner.get().await.unwrap();
            assert_eq!(*item.key(), "now");
            std::future::pending::<()>().await;
        });
        clock.sleep(Duration::from_millis(1)).await;
        let inner = queue.clone();
        let other = scope.spawn("other", async move { *inner.get().await.unwrap().key() });
        clock.sleep(Duration::from_millis(1)).await;
        queue.add("now");
        assert_eq!(clock.timeout(SECOND * 5, other).await.unwrap().unwrap(), "later");
        drop(keeper);
    });
}

#[test]
fn keys_that_come_due_together_wake_as_many_workers() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        let _workers = three_holders(&clock, &queue);
        for key in ["a", "b", "c"] {
            queue.add_after(key, SECOND);
        }
        clock.sleep(SECOND * 2).await;
        assert_eq!(queue.stats().processing, 3);
    });
}

#[test]
fn a_worker_with_endless_keys_yields_to_other_tasks() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add("again and again");
        let scope = clock.scope("workers");
        let inner = queue.clone();
        scope.spawn("busy", async move {
            while let Some(item) = inner.get().await {
                item.requeue_after(Duration::ZERO);
            }
        });
        // On one thread, this is reached only if the worker yields.
        tokio::task::yield_now().await;
        queue.shutdown();
        scope.wait_ended().await;
    });
}

#[test]
fn a_key_that_is_ready_needs_no_timer() {
    // Without a runtime there is no timer: starting one would panic.
    let queue = Queue::new(Clock::real());
    queue.add("a");
    assert_eq!(work_off(&queue), ["a"]);
}

#[test]
fn a_worker_takes_any_number_of_keys_in_a_row() {
    simulate(|clock| async move {
        let queue = WorkQueue::<u32>::new(clock);
        queue.add_all((0..1000).map(|key| (key, bowline_workqueue::AddOptions::default())));
        for expected in 0..1000 {
            assert_eq!(*queue.get().await.expect("giving way is not the end").key(), expected);
        }
    });
}

#[test]
fn a_waiting_worker_is_not_polled_while_nothing_happens() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add_after("later", SECOND * 3600);
        let mut get = std::pin::pin!(queue.get());
        let mut polls = 0;
        let item = std::future::poll_fn(|cx| {
            polls += 1;
            get.as_mut().poll(cx)
        });
        assert_eq!(*item.await.unwrap().key(), "later");
        assert_eq!(polls, 2, "once to wait, once when its time has come");
    });
}

#[test]
fn a_worker_whose_key_was_taken_keeps_the_timer() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add_after("later", SECOND);
        let mut keeper = Box::pin(queue.get());
        assert!(keeper.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        queue.add("now");
        assert_eq!(work_off(&queue), ["now"]);
        let scope = clock.scope("guard");
        let (inner, other) = (clock.clone(), queue.clone());
        // Without its timer, only this wakes the worker.
        scope.spawn("guard", async move {
            inner.sleep(SECOND * 60).await;
            other.shutdown();
        });
        assert_eq!(*keeper.await.unwrap().key(), "later");
        assert_eq!(clock.now(), Instant::ZERO + SECOND);
    });
}

#[test]
fn a_future_that_holds_a_wake_up_delays_one_key_only() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        let mut stalled = Box::pin(queue.get());
        assert!(stalled.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let scope = clock.scope("workers");
        let inner = queue.clone();
        scope.spawn("worker", async move { while inner.get().await.is_some() {} });
        clock.sleep(SECOND).await;
        queue.add("lost on the one that stalls");
        clock.sleep(SECOND).await;
        for key in ["a", "b"] {
            queue.add(key);
            clock.sleep(SECOND).await;
            assert!(queue.is_empty(), "{key} is served by the one that does not");
        }
    });
}

#[test]
fn done_and_get_takes_the_next_key_and_then_the_same_key_again() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add("a");
        queue.add("b");
        let item = queue.get().await.unwrap();
        queue.add("a");
        let item = item.done_and_get(clock.now()).await.unwrap();
        assert_eq!(*item.key(), "b");
        let item = item.done_and_get(clock.now()).await.unwrap();
        assert_eq!(*item.key(), "a");
        queue.shutdown();
        assert!(item.done_and_get(clock.now()).await.is_none());
        assert_eq!(queue.stats().processing, 0);
    });
}

#[test]
fn done_and_get_ends_the_run_when_dropped_before_its_first_poll() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add("a");
        drop(queue.get().await.unwrap().done_and_get(clock.now()));
        assert_eq!(queue.stats().processing, 0);
        queue.add("a");
        assert_eq!(work_off(&queue), ["a"]);
    });
}

#[test]
fn a_worker_that_yields_has_ended_its_run() {
    simulate(|clock| async move {
        let queue = WorkQueue::<u32>::new(clock.clone());
        for key in 0..1000 {
            queue.add(key);
        }
        let mut next = Box::pin(queue.get());
        let served = std::future::poll_fn(|cx| {
            let mut served = 0;
            while let std::task::Poll::Ready(item) = next.as_mut().poll(cx) {
                served += 1;
                next.set(item.unwrap().done_and_get(clock.now()));
            }
            std::task::Poll::Ready(served)
        });
        let served = served.await;
        assert!((1..1000).contains(&served), "{served}: it gives way before all is done");
        assert_eq!(queue.stats().processing, 0);
    });
}

#[test]
fn an_eager_worker_takes_all_keys_without_yielding() {
    simulate(|clock| async move {
        let queue = WorkQueue::<u32>::new(clock.clone());
        queue.add_all((0..1000).map(|key| (key, bowline_workqueue::AddOptions::default())));
        let mut next = Box::pin(queue.get().eager());
        let served = std::future::poll_fn(|cx| {
            let mut served = 0;
            while let std::task::Poll::Ready(item) = next.as_mut().poll(cx) {
                served += 1;
                next.set(item.unwrap().done_and_get(clock.now()).eager());
            }
            std::task::Poll::Ready(served)
        });
        assert_eq!(served.await, 1000);
        assert_eq!(queue.stats().processing, 0);
    });
}

//! Properties that hold under every schedule.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::thread;

use crate::env::Clock;
use crate::{AddOptions, DrainResult, WorkQueue};

const SCHEDULES: usize = 3000;
const SECOND: Duration = Duration::from_secs(1);

type Queue = WorkQueue<usize, BTreeSet<usize>>;

fn explore(world: impl Fn(Clock, Queue) + Send + Sync + 'static) {
    shuttle::check_pct(
        move || {
            let clock = Clock::new();
            let queue = Queue::new(clock.clone());
            world(clock, queue);
        },
        SCHEDULES,
        3,
    );
}

/// Works until the queue ends, and returns all keys it got.
fn worker(queue: Queue, held: Arc<[AtomicBool]>) -> thread::JoinHandle<BTreeSet<usize>> {
    thread::spawn(move || {
        let mut got = BTreeSet::new();
        let mut next = block_on(queue.get());
        while let Some(item) = next {
            let key = *item.key();
            assert!(!held[key].swap(true, Ordering::SeqCst), "key {key} is with two workers");
            got.extend(item.payload().iter().copied());
            thread::yield_now();
            assert!(held[key].swap(false, Ordering::SeqCst));
            next = if key == 0 {
                item.done();
                block_on(queue.get())
            } else {
                block_on(item.done_and_get(bowline_clock::Instant::ZERO))
            };
        }
        got
    })
}

fn held(keys: usize) -> Arc<[AtomicBool]> {
    (0..keys).map(|_| AtomicBool::new(false)).collect()
}

#[test]
fn no_key_is_lost_and_none_is_with_two_workers() {
    explore(|_, queue| {
        let held = held(2);
        let workers = [worker(queue.clone(), held.clone()), worker(queue.clone(), held)];
        let adders = [0, 1].map(|adder| {
            let queue = queue.clone();
            thread::spawn(move || {
                for number in 0..4 {
                    queue.add_with(number % 2, AddOptions::new(BTreeSet::from([adder * 4 + number])));
                }
            })
        });
        for adder in adders {
            adder.join().unwrap();
        }
        queue.shutdown();
        let got: BTreeSet<_> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
        assert_eq!(got, (0..8).collect());
    });
}

#[test]
fn a_shutdown_in_the_middle_of_a_batch_drops_the_rest_and_counts_it() {
    explore(|_, queue| {
        let adder = {
            let queue = queue.clone();
            thread::spawn(move || {
                queue.add_all((0..3).map(|key| (key, AddOptions::new(BTreeSet::from([key])))));
            })
        };
        queue.shutdown();
        let got = worker(queue.clone(), held(3)).join().unwrap().len();
        adder.join().unwrap();
        let dropped = usize::try_from(queue.stats().dropped).unwrap();
        assert_eq!(got + dropped, 3);
    });
}

#[test]
fn a_worker_that_waits_is_always_woken() {
    explore(|_, queue| {
        let workers = [0, 1, 2].map(|_| {
            let queue = queue.clone();
            thread::spawn(move || *block_on(queue.get()).expect("there is a key for everyone").key())
        });
        queue.add(0);
        queue.add_all([(1, AddOptions::default()), (2, AddOptions::default())]);
        let got: BTreeSet<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
        assert_eq!(got.len(), 3);
    });
}

#[test]
fn a_dropped_worker_passes_its_wake_up_on() {
    explore(|_, queue| {
        let patient = {
            let queue = queue.clone();
            thread::spawn(move || *block_on(queue.get()).unwrap().key())
        };
        let impatient = {
            let queue = queue.clone();
            thread::spawn(move || {
                // Polled twice, then dropped, possibly with a wake-up or a key.
                let mut get = pin!(queue.get());
                let mut polls = 0;
                block_on(std::future::poll_fn(|cx| {
                    polls += 1;
                    match get.as_mut().poll(cx) {
                        Poll::Ready(item) => Poll::Ready(item.map(|item| *item.key())),
                        Poll::Pending if polls < 2 => {
                            cx.waker().wake_by_ref();
                            Poll::Pending
                        }
                        Poll::Pending => Poll::Ready(None),
                    }
                }))
            })
        };
        queue.add(7);
        if impatient.join().unwrap().is_some() {
            queue.add(7);
        }
        assert_eq!(patient.join().unwrap(), 7);
    });
}

#[test]
fn a_due_key_is_handed_out_no_matter_which_worker_has_the_timer() {
    explore(|clock, queue| {
        let workers = [0, 1].map(|_| {
            let queue = queue.clone();
            thread::spawn(move || *block_on(queue.get()).expect("there is a key for everyone").key())
        });
        queue.add_after(0, SECOND * 5);
        queue.add_after(1, SECOND * 2);
        clock.advance(SECOND * 2);
        thread::yield_now();
        clock.advance(SECOND * 3);
        let got: BTreeSet<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
        assert_eq!(got, BTreeSet::from([0, 1]));
    });
}

#[test]
fn a_drain_ends_when_the_last_run_does() {
    explore(|_, queue| {
        let held = held(2);
        let ended = Arc::new(AtomicUsize::new(0));
        queue.add(0);
        queue.add(1);
        let workers = [worker(queue.clone(), held.clone()), worker(queue.clone(), held)];
        let drains = [0, 1].map(|_| {
            let (queue, ended) = (queue.clone(), ended.clone());
            thread::spawn(move || {
                assert_eq!(block_on(queue.shutdown_with_drain(SECOND)), DrainResult::Complete);
                assert_eq!((queue.stats().ready, queue.stats().processing), (0, 0));
                ended.fetch_add(1, Ordering::SeqCst);
            })
        });
        for drain in drains {
            drain.join().unwrap();
        }
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(ended.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn retries_and_adds_from_elsewhere_do_not_lose_each_other() {
    explore(|clock, queue| {
        queue.add_with(0, AddOptions::new(BTreeSet::from([0])));
        let adder = {
            let queue = queue.clone();
            thread::spawn(move || queue.add_with(0, AddOptions::new(BTreeSet::from([1]))))
        };
        let retrier = {
            let queue = queue.clone();
            thread::spawn(move || block_on(queue.get()).unwrap().requeue_rate_limited())
        };
        adder.join().unwrap();
        retrier.join().unwrap();
        clock.advance(SECOND);
        let item = block_on(queue.get()).unwrap();
        assert_eq!(*item.payload(), BTreeSet::from([0, 1]));
    });
}

#[test]
fn a_dropped_worker_passes_its_timer_on() {
    explore(|clock, queue| {
        queue.add_after(7, SECOND);
        let impatient = {
            let queue = queue.clone();
            thread::spawn(move || {
                let mut get = pin!(queue.get());
                block_on(std::future::poll_fn(|cx| {
                    Poll::Ready(match get.as_mut().poll(cx) {
                        Poll::Ready(item) => item.map(|item| *item.key()),
                        Poll::Pending => None,
                    })
                }))
            })
        };
        let patient = {
            let queue = queue.clone();
            thread::spawn(move || *block_on(queue.get()).unwrap().key())
        };
        clock.advance(SECOND);
        if impatient.join().unwrap().is_some() {
            queue.add(7);
        }
        assert_eq!(patient.join().unwrap(), 7);
    });
}

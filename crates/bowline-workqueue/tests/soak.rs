//! Many adders, many workers, real threads, and workers that panic at random: every key is handled in the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bowline_clock::{Clock, Rng};
use bowline_workqueue::{AddOptions, Coalesce, DrainResult, ItemExponentialFailure, WorkQueue};

const KEYS: usize = 200;
const ADDERS: u64 = 8;
const ADDS: u64 = 2_000;
const WORKERS: usize = 8;

/// Number of adds merged into it.
#[derive(Default)]
struct Count(u64);

impl Coalesce for Count {
    fn coalesce(&mut self, newer: Self) {
        self.0 += newer.0;
    }
}

struct Books {
    held: Vec<AtomicBool>,
    handled: AtomicU64,
}

async fn work(queue: WorkQueue<usize, Count>, books: Arc<Books>, rng: Rng) {
    while let Some(item) = queue.get().await {
        let key = *item.key();
        assert!(!books.held[key].swap(true, Ordering::SeqCst), "key {key} is with two workers");
        if rng.range(0..4) == 0 {
            tokio::task::yield_now().await;
        }
        let fate = rng.range(0..20);
        books.held[key].store(false, Ordering::SeqCst);
        match fate {
            // A retry keeps its payload, and a crash here must not lose it.
            0..2 => item.requeue_rate_limited(),
            2 => item.requeue_after(Duration::from_micros(rng.range(0..2000))),
            fate => {
                books.handled.fetch_add(item.payload().0, Ordering::SeqCst);
                queue.forget(&key);
                // The first frame of every stack trace in the output: this panic is part of the test.
                assert!(fate != 3, "a worker panics at random");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_add_is_handled_although_workers_panic() {
    let clock = Clock::real();
    let seed = clock.rng().next_u64();
    println!("seed {seed}");
    let rng = Rng::seeded(seed);
    let limiter = ItemExponentialFailure::new(Duration::from_micros(50), Duration::from_millis(5));
    let queue = WorkQueue::builder(clock.clone()).limiter(limiter).build();
    let books = Arc::new(Books {
        held: (0..KEYS).map(|_| AtomicBool::new(false)).collect(),
        handled: AtomicU64::new(0),
    });

    // A worker that panics is replaced.
    let workers = clock.scope("workers");
    for worker in 0..WORKERS {
        let (queue, books, rng, spawner) = (queue.clone(), books.clone(), rng.fork(), workers.spawner());
        workers.spawn(format!("keeper of worker {worker}"), async move {
            let run = || spawner.spawn("worker", work(queue.clone(), books.clone(), rng.fork()));
            while run().await.is_err() {}
        });
    }
    let adders = clock.scope("adders");
    for adder in 0..ADDERS {
        let (queue, rng) = (queue.clone(), rng.fork());
        adders.spawn(format!("adder {adder}"), async move {
            let mut left = ADDS;
            while left > 0 {
                let draw = || {
                    let key = usize::try_from(rng.range(0..KEYS as u64)).unwrap();
                    (key, AddOptions::new(Count(1)).priority(i32::try_from(rng.range(0..3)).unwrap()))
                };
                let (key, add) = draw();
                let mut added = 1;
                match rng.range(0..40) {
                    0..4 => queue.add_with(key, add.after(Duration::from_micros(rng.range(0..3000)))),
                    4..8 => queue.add_with(key, add.rate_limited()),
                    8 => {
                        // Many at once, so that the lock is released for waiting workers in between.
                        added = rng.range(1..300).min(left);
                        queue.add_all((0..added).map(|_| draw()));
                    }
                    _ => queue.add_with(key, add),
                }
                left -= added;
                if rng.range(0..16) == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    adders.wait_ended().await;
    assert_eq!(adders.panicked(), 0);

    let all_handled = async {
        while books.handled.load(Ordering::SeqCst) < ADDERS * ADDS {
            clock.sleep(Duration::from_millis(1)).await;
        }
    };
    clock.timeout(Duration::from_secs(60), all_handled).await.expect("every add is handled");
    assert_eq!(queue.shutdown_with_drain(Duration::from_secs(60)).await, DrainResult::Complete);
    workers.wait_ended().await;
    assert_eq!(books.handled.load(Ordering::SeqCst), ADDERS * ADDS, "no add is handled twice");
    assert!(workers.panicked() > 0, "some workers did panic");
    let stats = queue.stats();
    assert_eq!((stats.ready, stats.delayed, stats.processing, stats.dropped), (0, 0, 0, 0));
}

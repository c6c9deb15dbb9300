//! Foreign code that panics or blocks, and keys by the million.

use super::*;
use bowline_clock::Instant;
use bowline_workqueue::{AddOptions, Metrics, PANIC_DELAY, RateLimiter};

struct Explosive(&'static str);

impl Coalesce for Explosive {
    fn coalesce(&mut self, newer: Self) {
        assert_ne!(newer.0, "bang", "a payload exploded");
        self.0 = newer.0;
    }
}

#[test]
fn a_panicking_merge_loses_the_newer_payload_and_nothing_else() {
    simulate(|clock| async move {
        let queue = WorkQueue::<&str, Explosive>::new(clock);
        queue.add_with("a", AddOptions::new(Explosive("first")));
        queue.add_with("a", AddOptions::new(Explosive("bang")).priority(5));
        queue.add_with("b", AddOptions::new(Explosive("other")));
        let item = queue.try_get().unwrap();
        assert_eq!((*item.key(), item.payload().0, item.priority()), ("a", "first", 5));
        item.done();
        assert_eq!(queue.try_get().unwrap().payload().0, "other");
        assert_eq!(queue.stats().merge_panics, 1);
    });
}

struct Moody;

impl RateLimiter<&'static str> for Moody {
    fn when(&mut self, key: &&'static str, _now: Instant) -> Duration {
        assert_ne!(*key, "bang", "a limiter exploded");
        Duration::MAX
    }

    fn num_requeues(&self, _key: &&'static str) -> u32 {
        panic!("a limiter exploded")
    }
}

#[test]
fn a_panicking_limiter_delays_only_its_key() {
    simulate(|clock| async move {
        let queue = Queue::builder(clock.clone()).limiter(Moody).build();
        queue.add_rate_limited("bang");
        queue.add_all([
            ("bang", AddOptions::default().rate_limited()),
            ("huge", AddOptions::default().rate_limited()),
        ]);
        assert_eq!(queue.num_requeues(&"bang"), 0);
        assert_eq!(queue.stats().limiter_panics, 3);
        assert_eq!(*queue.get().await.unwrap().key(), "bang");
        assert_eq!(clock.now().duration_since(Instant::ZERO), PANIC_DELAY);
        // The huge delay never ends, and the key is not lost.
        assert_eq!(queue.stats().delayed, 1);
        queue.add("huge");
        assert_eq!(work_off(&queue), ["huge"]);
    });
}

struct BadSink;

impl Metrics for BadSink {
    fn added(&self, _priority: i32) {
        panic!("a sink exploded")
    }

    fn handed_out(&self, _priority: i32, _waited: Duration) {
        panic!("a sink exploded")
    }

    fn finished(&self, _worked: Duration) {
        panic!("a sink exploded")
    }

    fn attach(&self, _gauges: std::sync::Weak<dyn bowline_workqueue::Gauges>) {
        panic!("a sink exploded")
    }
}

#[test]
fn a_panicking_sink_affects_neither_callers_nor_keys() {
    simulate(|clock| async move {
        let queue = Queue::builder(clock.clone()).metrics(BadSink).build();
        queue.add("a");
        queue.add("b");
        assert_eq!(work_off(&queue), ["a", "b"]);
        assert_eq!(queue.stats().sink_panics, 7);
    });
}

#[test]
fn a_panicking_sink_does_not_turn_a_workers_panic_into_an_abort() {
    simulate(|clock| async move {
        let queue = Queue::builder(clock.clone()).metrics(BadSink).build();
        queue.add("a");
        let scope = clock.scope("workers");
        let inner = queue.clone();
        let worker = scope.spawn("clumsy", async move {
            let _item = inner.get().await;
            panic!("and so did the worker");
        });
        assert!(worker.await.is_err());
        queue.add("a");
        assert_eq!(work_off(&queue), ["a"]);
    });
}

#[test]
fn a_leaked_item_locks_only_its_key() {
    simulate(|clock| async move {
        let queue = Queue::new(clock.clone());
        queue.add("leaked");
        std::mem::forget(queue.try_get().unwrap());
        queue.add("leaked");
        queue.add("b");
        assert_eq!(work_off(&queue), ["b"]);
        assert_eq!(queue.stats().processing, 1);
        queue.shutdown();
        assert!(queue.get().await.is_none(), "workers are not kept waiting for it");
    });
}

#[test]
fn a_million_keys_keep_their_order() {
    let queue = WorkQueue::<u32>::new(Clock::real());
    queue.add_all((0..1_000_000).map(|key| (key, AddOptions::default())));
    assert_eq!(queue.len(), 1_000_000);
    for expected in 0..1_000_000 {
        assert_eq!(*queue.try_get().unwrap().key(), expected);
    }
    assert!(queue.is_empty());
}

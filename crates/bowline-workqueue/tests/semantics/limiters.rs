//! Delays of the rate limiters.

use super::*;
use bowline_clock::Instant;
use bowline_workqueue::{
    InvalidBucket, ItemExponentialFailure, ItemFastSlow, MaxOf, MinInterval, RateLimiter, TokenBucket,
    WithMaxWait,
};

const NOW: Instant = Instant::ZERO;

fn millis(delay: Duration) -> u128 {
    delay.as_millis()
}

#[test]
fn exponential_doubles_per_key_from_5_ms_to_1000_s_until_forgotten() {
    let mut limiter = ItemExponentialFailure::default();
    let delays: Vec<_> = (0..20).map(|_| millis(limiter.when(&"a", NOW))).collect();
    assert_eq!(delays[..5], [5, 10, 20, 40, 80]);
    assert_eq!(delays[17], 655_360);
    assert_eq!(delays[18..], [1_000_000, 1_000_000]);
    assert_eq!(millis(limiter.when(&"b", NOW)), 5, "keys do not feel each other");
    assert_eq!(
        (limiter.num_requeues(&"a"), limiter.num_requeues(&"b"), limiter.num_requeues(&"c")),
        (20, 1, 0)
    );
    limiter.forget(&"a");
    assert_eq!((limiter.num_requeues(&"a"), millis(limiter.when(&"a", NOW))), (0, 5));
}

#[test]
fn exponential_stays_at_its_maximum_however_often_and_however_large() {
    for (base, max) in
        [(Duration::from_nanos(1), Duration::MAX), (Duration::MAX, Duration::MAX), (SECOND, SECOND / 2)]
    {
        let mut limiter = ItemExponentialFailure::new(base, max);
        for _ in 0..200 {
            limiter.when(&"a", NOW);
        }
        assert_eq!(limiter.when(&"a", NOW), max);
    }
    let mut none = ItemExponentialFailure::new(Duration::ZERO, SECOND);
    for _ in 0..200 {
        assert_eq!(none.when(&"a", NOW), Duration::ZERO);
    }
}

#[test]
fn bucket_allows_a_burst_of_100_then_10_per_second() {
    let mut limiter = TokenBucket::default();
    for _ in 0..100 {
        assert_eq!(limiter.when(&"a", NOW), Duration::ZERO);
    }
    assert_eq!(millis(limiter.when(&"b", NOW)), 100);
    assert_eq!(millis(limiter.when(&"a", NOW)), 200);
    // In half a second the bucket gains five tokens; two of them were overdrawn.
    let later = NOW + SECOND / 2;
    let delays: Vec<_> = (0..4).map(|_| millis(limiter.when(&"a", later))).collect();
    assert_eq!(delays, [0, 0, 0, 100]);
    // It never holds more than its burst.
    let much_later = NOW + SECOND * 3600;
    let free = (0..200).take_while(|_| limiter.when(&"a", much_later).is_zero()).count();
    assert_eq!(free, 100);
    RateLimiter::<&str>::forget(&mut limiter, &"a");
    assert_eq!(RateLimiter::<&str>::num_requeues(&limiter, &"a"), 0);
}

#[test]
fn a_bucket_that_allows_nothing_is_refused_with_a_reason() {
    assert_eq!(TokenBucket::new(10.0, 0).unwrap_err(), InvalidBucket::NoBurst);
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-30] {
        let refused = TokenBucket::new(rate, 1).unwrap_err();
        assert!(matches!(refused, InvalidBucket::Rate { .. }), "{rate}: {refused}");
        assert!(refused.to_string().contains("give it a positive, finite rate"));
    }
    assert!(TokenBucket::new(0.001, 1).is_ok());
}

#[test]
fn an_overdrawn_bucket_saturates_instead_of_overflowing() {
    let mut limiter = TokenBucket::new(1e-9, 1).unwrap();
    for _ in 0..1000 {
        limiter.when(&"a", NOW);
    }
    assert!(limiter.when(&"a", NOW) > SECOND * 1_000_000_000);
}

#[test]
fn fast_slow_delays_fast_then_slow_until_forgotten() {
    let mut limiter = ItemFastSlow::new(Duration::from_millis(5), SECOND, 3);
    let delays: Vec<_> = (0..5).map(|_| millis(limiter.when(&"a", NOW))).collect();
    assert_eq!(delays, [5, 5, 5, 1000, 1000]);
    assert_eq!(millis(limiter.when(&"b", NOW)), 5);
    limiter.forget(&"a");
    assert_eq!(millis(limiter.when(&"a", NOW)), 5);
    assert_eq!(millis(ItemFastSlow::new(Duration::ZERO, SECOND, 0).when(&"a", NOW)), 1000);
}

#[test]
fn max_of_takes_the_longest_delay_and_the_most_requeues_of_all() {
    let mut limiter = MaxOf::client_go();
    let delays: Vec<_> = (0..3).map(|_| millis(limiter.when(&"a", NOW))).collect();
    assert_eq!(delays, [5, 10, 20]);
    for other in 0..200 {
        limiter.when(&["b", "c", "d", "e"][other % 4], NOW);
    }
    assert_eq!(millis(limiter.when(&"f", NOW)), 10_400, "the bucket was emptied by the others");
    assert_eq!(limiter.num_requeues(&"a"), 3);
    limiter.forget(&"a");
    assert_eq!(limiter.num_requeues(&"a"), 0);
    assert_eq!(MaxOf::new([]).when(&"a", NOW), Duration::ZERO);
}

#[test]
fn max_wait_limits_longer_delays() {
    let mut limiter = WithMaxWait::new(ItemExponentialFailure::default(), Duration::from_millis(15));
    let delays: Vec<_> = (0..4).map(|_| millis(limiter.when(&"a", NOW))).collect();
    assert_eq!(delays, [5, 10, 15, 15]);
    assert_eq!(limiter.num_requeues(&"a"), 4);
    limiter.forget(&"a");
    assert_eq!(limiter.num_requeues(&"a"), 0);
}

#[test]
fn min_interval_keeps_runs_of_a_key_apart_and_lets_adds_share_a_run() {
    let mut limiter = MinInterval::new(SECOND);
    assert_eq!(limiter.when(&"a", NOW), Duration::ZERO);
    // All adds share the next run, however many they are.
    let half = NOW + SECOND / 2;
    for _ in 0..10 {
        assert_eq!(limiter.when(&"a", half), SECOND / 2);
    }
    assert_eq!(limiter.when(&"b", half), Duration::ZERO);
    // The run at one second is over; the next is at two.
    assert_eq!(limiter.when(&"a", half + SECOND), SECOND / 2);
    // A key without recent runs is not delayed.
    assert_eq!(limiter.when(&"a", NOW + SECOND * 9), Duration::ZERO);
    limiter.forget(&"a");
    assert_eq!(limiter.when(&"a", NOW + SECOND * 9), SECOND, "a success does not allow an earlier run");
    assert_eq!(MinInterval::new(Duration::ZERO).when(&"a", NOW), Duration::ZERO);
}

#[test]
fn min_interval_removes_expired_keys() {
    let mut limiter = MinInterval::new(SECOND);
    for key in 0..100_000_u32 {
        limiter.when(&key, NOW + SECOND * key);
    }
    let debug = format!("{limiter:?}");
    assert!(debug.len() < 100_000, "it remembers {} bytes of keys", debug.len());
}

#[test]
fn the_queue_calls_its_limiter_for_delays_and_to_forget() {
    simulate(|clock| async move {
        let queue = Queue::builder(clock.clone()).limiter(ItemFastSlow::new(SECOND, SECOND * 10, 1)).build();
        queue.add_rate_limited("a");
        clock.sleep(SECOND).await;
        queue.try_get().unwrap().requeue_rate_limited();
        assert_eq!(queue.num_requeues(&"a"), 2);
        clock.sleep(SECOND * 9).await;
        assert!(queue.is_empty());
        clock.sleep(SECOND).await;
        assert_eq!(work_off(&queue), ["a"]);
        queue.forget(&"a");
        assert_eq!(queue.num_requeues(&"a"), 0);
    });
}

#[test]
fn a_custom_limiter_can_be_boxed() {
    struct Hourly;
    impl RateLimiter<&'static str> for Hourly {
        fn when(&mut self, _key: &&'static str, _now: Instant) -> Duration {
            SECOND * 3600
        }
    }
    simulate(|clock| async move {
        let limiter: Box<dyn RateLimiter<&'static str>> = Box::new(Hourly);
        let queue = Queue::builder(clock.clone()).limiter(limiter).build();
        queue.add_rate_limited("a");
        assert_eq!(queue.num_requeues(&"a"), 0);
        assert_eq!(*queue.get().await.unwrap().key(), "a");
        assert_eq!(clock.now(), NOW + SECOND * 3600);
    });
}

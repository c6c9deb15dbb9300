//! Timers of a cache.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_cache::{CacheOptions, Event, Kind};
use bowline_clock::Instant;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use crate::world::World;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_resync_comes_after_about_ten_hours_and_not_for_all_kinds_at_once() {
    World::run(1, |world| async move {
        world.create("a").await;
        world.create_secret("s").await;
        let cache = world.cache(CacheOptions::new());
        let began = world.clock.now();
        let times = Arc::new(Mutex::new(Vec::<(&str, Instant)>::new()));
        let (maps, secrets) = (
            cache.get_informer(&Kind::<ConfigMap>::typed()).expect("an informer"),
            cache.get_informer(&Kind::<Secret>::typed()).expect("an informer"),
        );
        let note = |name: &'static str| {
            let (times, clock) = (times.clone(), world.clock.clone());
            move || times.lock().expect("the lock is not poisoned").push((name, clock.now()))
        };
        let (of_maps, of_secrets) = (note("map"), note("secret"));
        let _maps = maps.add_handler(move |event: &Event<ConfigMap>| {
            if matches!(event, Event::Update { .. }) {
                of_maps();
            }
        });
        let _secrets = secrets.add_handler(move |event: &Event<Secret>| {
            if matches!(event, Event::Update { .. }) {
                of_secrets();
            }
        });
        cache.start();
        world.clock.sleep(12 * HOUR).await;
        let times = times.lock().expect("the lock is not poisoned").clone();
        assert_eq!(times.len(), 2, "{times:?}");
        for (_, time) in &times {
            let after = time.duration_since(began);
            assert!((9 * HOUR..=11 * HOUR).contains(&after), "{after:?}");
        }
        assert_ne!(times[0].1, times[1].1);
    });
}

#[test]
fn a_start_while_the_cache_stops_leaves_it_started() {
    World::run(1, |world| async move {
        let cache = world.cache(CacheOptions::new());
        let informer = cache.get_informer(&Kind::<ConfigMap>::typed()).expect("an informer");
        let other = cache.get_informer(&Kind::<Secret>::typed()).expect("an informer");
        cache.start();
        cache.wait_for_sync(Duration::from_secs(60)).await.expect("in sync");
        for _ in 0..20 {
            let starting = async { cache.start() };
            tokio::join!(cache.stop(), starting, cache.stop());
            cache.start();
            assert!(informer.is_running() && other.is_running());
        }
        let (stopping, starting) = (cache.stop(), async { cache.start() });
        tokio::join!(stopping, starting);
        assert!(informer.is_running() && other.is_running());
        world.create("a").await;
        world.until("a is held", || informer.indexer().len() == 1).await;
        world.until("one watch is left", || world.traffic.open("configmaps").len() == 1).await;
    });
}

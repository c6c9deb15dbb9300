//! Races that need several threads.

use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_cache::{CacheOptions, InformerCache, Kind};
use bowline_clock::Clock;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
use kube::Client;

#[test]
fn after_concurrent_starts_and_stops_all_informers_run_or_none() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let clock = Clock::real();
        let scope = clock.scope("test");
        let server = ApiServer::builder().clock(clock.clone()).build().expect("it can be built");
        let cache = InformerCache::new(&scope.spawner(), Client::new(server, "default"), CacheOptions::new());
        let maps = cache.get_informer(&Kind::<ConfigMap>::typed()).expect("an informer");
        let secrets = cache.get_informer(&Kind::<Secret>::typed()).expect("an informer");
        let services = cache.get_informer(&Kind::<Service>::typed()).expect("an informer");
        for round in 0..500 {
            cache.start();
            let tasks: Vec<_> = (0..4)
                .map(|number| {
                    let cache = cache.clone();
                    scope.spawn("user", async move {
                        if number % 2 == 0 { cache.stop().await } else { cache.start() }
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("it does not panic");
            }
            // A new informer runs if and only if the cache does.
            let is_started =
                cache.get_informer(&Kind::<Namespace>::typed()).expect("an informer").is_running();
            let are_running = [maps.is_running(), secrets.is_running(), services.is_running()];
            assert_eq!(are_running, [is_started; 3], "in round {round}");
        }
        cache.start();
        cache.wait_for_sync(Duration::from_secs(30)).await.expect("in sync");
    });
}

//! Many who use, read, remove, start and stop at once, in an order that a seed decides.

use std::sync::Arc;
use std::time::Duration;

use bowline_apiserver::Verdict;
use bowline_cache::{CacheError, CacheOptions, Informer, InformerCache, Kind, ListQuery};
use bowline_clock::Clock;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::PartialObjectMeta;

use crate::world::{World, forbidden, names};

/// Somebody who does this and that with a kind.
struct Somebody<K> {
    cache: InformerCache,
    clock: Clock,
    kind: Kind<K>,
    held: Vec<Informer<K>>,
}

impl<K: kube::Resource + Send + Sync + 'static> Somebody<K> {
    fn new(world: &World, cache: &InformerCache, kind: Kind<K>) -> Self {
        Self { cache: cache.clone(), clock: world.clock.clone(), kind, held: Vec::new() }
    }

    async fn live(mut self) {
        for _ in 0..40 {
            let rng = self.clock.rng();
            self.clock.sleep(Duration::from_millis(rng.range(0..400))).await;
            match rng.range(0..12) {
                0..=3 => self.held.push(self.cache.get_informer(&self.kind).expect("an informer")),
                4..=6 => {
                    if !self.held.is_empty() {
                        let place =
                            usize::try_from(rng.range(0..self.held.len() as u64)).expect("it is small");
                        self.held.swap_remove(place);
                    }
                }
                7 | 8 => self.read().await,
                9 => {
                    self.cache.remove_informer(&self.kind).await;
                }
                10 => self.cache.stop().await,
                _ => self.cache.start(),
            }
        }
    }

    /// Ends in time, whatever others do meanwhile.
    async fn read(&self) {
        let query = ListQuery::new();
        let reading = self.clock.timeout(Duration::from_secs(121), self.cache.list(&self.kind, &query));
        match reading.await.expect("a read ends") {
            Ok(found) => assert!(found.len() <= 2),
            Err(CacheError::Removed { .. } | CacheError::NotStarted { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn whatever_many_do_at_once_each_kind_that_is_wanted_has_one_watch_and_no_other_has() {
    for seed in 0..30 {
        World::run(seed, |world| async move {
            for name in ["a", "b"] {
                world.create(name).await;
                world.create_secret(name).await;
            }
            let rng = world.clock.clone();
            world.on_read(move |_| {
                let delay = Duration::from_millis(rng.rng().range(0..1000));
                let verdict = if rng.rng().range(0..10) == 0 { forbidden() } else { Verdict::Proceed };
                (delay, verdict)
            });
            let cache = world.cache(CacheOptions::new());
            let (maps, secrets) = (Kind::<ConfigMap>::typed(), Kind::<Secret>::typed());
            let metadata = Kind::<PartialObjectMeta<Secret>>::metadata();
            let scope = world.spawner().scope("somebody");
            let tasks = [
                scope.spawn("one", Somebody::new(&world, &cache, maps.clone()).live()),
                scope.spawn("two", Somebody::new(&world, &cache, maps.clone()).live()),
                scope.spawn("three", Somebody::new(&world, &cache, secrets.clone()).live()),
                scope.spawn("four", Somebody::new(&world, &cache, metadata.clone()).live()),
            ];
            for task in join_all(tasks).await {
                task.expect("it does not panic");
            }
            world.heal();
            cache.start();
            cache.wait_for_sync(Duration::from_secs(120)).await.expect("in sync");
            let open = || world.traffic.open("configmaps").len() + world.traffic.open("secrets").len();
            world.until("each informer has its watch", || open() == cache.stats().len()).await;
            let names_of = |found: Result<Vec<Arc<_>>, _>| names::<ConfigMap>(&found.expect("in sync"));
            let query = ListQuery::new();
            assert_eq!(names_of(cache.list(&maps, &query).await), ["a", "b"]);
            assert_eq!(names(&cache.list(&secrets, &query).await.expect("in sync")), ["a", "b"]);
            assert_eq!(names(&cache.list(&metadata, &query).await.expect("in sync")), ["a", "b"]);
            assert_eq!((open(), cache.stats().len()), (3, 3), "one for each that is read");
            drop(cache);
            world.until("none is left", || open() == 0).await;
        });
    }
}

//! Concurrent users of one cache: get, drop, read, remove, start and stop, in a random order per seed.

use std::sync::Arc;
use std::time::Duration;

use bowline_cache::{CacheError, CacheOptions, InformerCache, InformerHandle, Kind, ListQuery};
use bowline_clock::Clock;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::PartialObjectMeta;

use crate::world::{World, forbidden, names};

/// A user that acts at random on one kind.
struct RandomUser<K> {
    cache: InformerCache,
    clock: Clock,
    kind: Kind<K>,
    held: Vec<InformerHandle<K>>,
}

impl<K: kube::Resource + Send + Sync + 'static> RandomUser<K> {
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

    /// Ends within the limit, during any actions of other users.
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
fn with_concurrent_users_each_needed_kind_has_exactly_one_watch() {
    for seed in 0..30 {
        World::run(seed, |world| async move {
            for name in ["a", "b"] {
                world.create(name).await;
                world.create_secret(name).await;
            }
            let rng = world.clock.clone();
            world.reads().run(move |_| rng.sleep(Duration::from_millis(rng.rng().range(0..1000))));
            world.reads().probability(0.1).fail(forbidden());
            let cache = world.cache(CacheOptions::new());
            let (maps, secrets) = (Kind::<ConfigMap>::typed(), Kind::<Secret>::typed());
            let metadata = Kind::<PartialObjectMeta<Secret>>::metadata();
            let scope = world.spawner().scope("user");
            let tasks = [
                scope.spawn("one", RandomUser::new(&world, &cache, maps.clone()).live()),
                scope.spawn("two", RandomUser::new(&world, &cache, maps.clone()).live()),
                scope.spawn("three", RandomUser::new(&world, &cache, secrets.clone()).live()),
                scope.spawn("four", RandomUser::new(&world, &cache, metadata.clone()).live()),
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

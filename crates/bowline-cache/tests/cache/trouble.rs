//! Slow and forbidden kinds: which calls wait, for how long, and their errors.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_cache::{CacheError, CacheOptions, Kind, ListQuery, ReflectorPhase, SelectionSettings};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use crate::world::{World, forbidden, names};

fn maps() -> Kind<ConfigMap> {
    Kind::typed()
}

#[test]
fn a_forbidden_kind_is_reported_delays_no_other_and_recovers() {
    World::run(1, |world| async move {
        world.create("a").await;
        world.create_secret("s").await;
        world.reads().resource("configmaps").fail(forbidden());
        let cache = world.cache(CacheOptions::new());
        let informer = cache.get_informer(&maps()).expect("an informer");
        let secrets = cache.get_informer(&Kind::<Secret>::typed()).expect("an informer");
        cache.start();
        let began = world.clock.now();
        let error = cache.wait_for_sync(Duration::from_secs(30)).await.expect_err("one is forbidden");
        assert_eq!(world.clock.now().duration_since(began), Duration::from_secs(30));
        assert_eq!(
            error.to_string(),
            "not in sync after 30s: configmaps (v1) in all namespaces (waiting for retry: configmaps is forbidden: you \
             may not (403 Forbidden))"
        );
        assert_eq!(error.missing()[0].phase, ReflectorPhase::Waiting);
        assert_eq!(names(&secrets.indexer().list()), ["s"]);
        world.heal();
        cache.wait_for_sync(Duration::from_secs(60)).await.expect("it is allowed now");
        assert_eq!(names(&informer.indexer().list()), ["a"]);
    });
}

#[test]
fn a_forbidden_namespace_affects_only_itself() {
    World::run(1, |world| async move {
        for namespace in ["closed", "open"] {
            world.create_namespace(namespace).await;
            world.create_in(namespace, "a").await;
        }
        world.reads().namespace("closed").fail(forbidden());
        let both = [("closed", SelectionSettings::new()), ("open", SelectionSettings::new())];
        let cache = world.cache(CacheOptions::new().namespaces(both).sync_timeout(Duration::from_secs(10)));
        let informer = cache.get_informer(&maps()).expect("an informer");
        cache.start();
        let began = world.clock.now();
        let error = cache.list(&maps(), &ListQuery::new()).await.expect_err("a namespace is forbidden");
        assert_eq!(world.clock.now().duration_since(began), Duration::from_secs(10));
        let CacheError::NotSynced(error) = error else { panic!("{error:?}") };
        assert_eq!(error.missing().len(), 1, "{error}");
        assert!(error.to_string().contains("configmaps (v1) in namespace closed"), "{error}");
        // The informer itself has the objects that could be listed, and follows them.
        world.create_in("open", "b").await;
        world.until("b is held", || informer.indexer().len() == 2).await;
        world.heal();
        let found = cache.list(&maps(), &ListQuery::new().in_namespace("closed")).await;
        // A failed read does not end the informer. It retries by itself, if need be after this read.
        let found = match found {
            Err(CacheError::NotSynced(_)) => {
                cache.wait_for_sync(Duration::from_secs(60)).await.expect("it is allowed now");
                cache.list(&maps(), &ListQuery::new().in_namespace("closed")).await
            }
            found => found,
        };
        assert_eq!(names(&found.expect("in sync")), ["a"]);
    });
}

#[test]
fn a_read_while_the_kind_is_listed_waits_for_it_and_no_longer() {
    World::run(1, |world| async move {
        world.create("a").await;
        world.reads().delay(Duration::from_secs(30));
        let cache = world.cache(CacheOptions::new());
        cache.start();
        let began = world.clock.now();
        let found = cache.list(&maps(), &ListQuery::new()).await.expect("in sync");
        assert_eq!(names(&found), ["a"]);
        assert_eq!(world.clock.now().duration_since(began), Duration::from_secs(30));
        // Later reads do not wait.
        cache.list(&maps(), &ListQuery::new()).await.expect("in sync");
        assert_eq!(world.clock.now().duration_since(began), Duration::from_secs(30));
    });
}

#[test]
fn a_read_ends_with_the_reason_after_two_minutes() {
    World::run(1, |world| async move {
        world.reads().delay(Duration::from_secs(50));
        world.reads().fail(forbidden());
        let cache = world.cache(CacheOptions::new());
        cache.start();
        let began = world.clock.now();
        let error = cache.lister(&maps()).await.expect_err("it is forbidden");
        assert_eq!(world.clock.now().duration_since(began), Duration::from_secs(120));
        assert!(error.to_string().contains("not in sync after 120s"), "{error}");
        assert!(error.to_string().contains("403 Forbidden"), "{error}");
    });
}

#[test]
fn a_cancelled_read_does_not_stop_the_informer() {
    World::run(1, |world| async move {
        world.create("a").await;
        world.reads().delay(Duration::from_secs(30));
        let cache = world.cache(CacheOptions::new());
        cache.start();
        let query = ListQuery::new();
        let given_up = world.clock.timeout(Duration::from_secs(5), cache.list(&maps(), &query)).await;
        assert!(given_up.is_err());
        let began = world.clock.now();
        assert_eq!(names(&cache.list(&maps(), &query).await.expect("in sync")), ["a"]);
        assert_eq!(
            world.clock.now().duration_since(began),
            Duration::from_secs(25),
            "the informer continued meanwhile"
        );
        assert_eq!(world.watches("configmaps"), 1);
    });
}

#[test]
fn a_read_ends_when_its_kind_is_removed() {
    World::run(1, |world| async move {
        world.reads().delay(Duration::from_secs(30));
        let cache = world.cache(CacheOptions::new());
        cache.start();
        let began = world.clock.now();
        let removing = async {
            world.clock.sleep(Duration::from_secs(3)).await;
            assert!(cache.remove_informer(&maps()).await);
        };
        let (kind, one, other) = (maps(), ListQuery::new(), ListQuery::new().in_namespace("default"));
        let (one, other, ()) = tokio::join!(cache.list(&kind, &one), cache.list(&kind, &other), removing);
        assert_eq!(one, Err(CacheError::Removed { kind: "configmaps (v1)".to_owned() }));
        assert_eq!(other, one);
        assert_eq!(world.clock.now().duration_since(began), Duration::from_secs(3));
    });
}

#[test]
fn the_last_user_ends_a_list_in_progress() {
    World::run(1, |world| async move {
        world.reads().delay(Duration::from_secs(30));
        let cache = world.cache(CacheOptions::new());
        cache.start();
        let informer = cache.get_informer(&maps()).expect("an informer");
        world.clock.sleep(Duration::from_secs(3)).await;
        assert_eq!(world.traffic.open("configmaps").len(), 1);
        let began = world.clock.now();
        let leaving = async {
            world.clock.sleep(Duration::from_secs(3)).await;
            drop(informer);
        };
        let (sync, ()) = tokio::join!(cache.wait_for_sync(Duration::from_secs(60)), leaving);
        assert_eq!(sync, Ok(()), "the wait ends with the removed informer");
        assert_eq!(world.clock.now().duration_since(began), Duration::from_secs(3));
        world.until("no request is open", || world.traffic.open("configmaps").is_empty()).await;
    });
}

#[test]
fn the_error_hook_gets_the_kind() {
    World::run(1, |world| async move {
        world.reads().fail(forbidden());
        let lines = Arc::new(Mutex::new(Vec::new()));
        let hook = {
            let lines = lines.clone();
            move |kind: &str, error: &bowline_cache::ListWatchError| {
                lines.lock().expect("the lock is not poisoned").push(format!("{kind}: {error}"));
            }
        };
        let cache = world.cache(CacheOptions::new().on_error(hook));
        let _informer = cache.get_informer(&maps()).expect("an informer");
        cache.start();
        world
            .until("the event arrives", || !lines.lock().expect("the lock is not poisoned").is_empty())
            .await;
        let lines = lines.lock().expect("the lock is not poisoned");
        assert_eq!(lines[0], "configmaps (v1): configmaps is forbidden: you may not (403 Forbidden)");
    });
}

#[test]
fn the_server_sends_nothing_after_the_last_user_left() {
    World::run(1, |world| async move {
        let cache = world.cache(CacheOptions::new());
        cache.start();
        let informer = cache.get_informer(&maps()).expect("an informer");
        informer.wait_for_sync(Duration::from_secs(60)).await.expect("in sync");
        world.create("a").await;
        world.until("a is held", || informer.indexer().len() == 1).await;
        assert_eq!(world.frames(), ["ADDED configmaps a"]);
        drop(informer);
        world.until("the watch is closed", || world.traffic.open("configmaps").is_empty()).await;
        world.create("b").await;
        // Longer than any watch.
        world.clock.sleep(Duration::from_secs(1200)).await;
        assert_eq!(world.frames(), ["ADDED configmaps a"]);
        assert_eq!(world.watches("configmaps"), 1);
    });
}

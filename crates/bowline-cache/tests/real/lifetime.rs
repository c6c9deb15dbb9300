//! Start and end of a cache's informers.

use std::time::Duration;

use bowline_cache::{CacheError, Kind, ListQuery, ObjectKey};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::ApiResource;

use crate::arm::{Arm, PATIENCE, Witness, held, names, value};
use crate::custom::Custom;

fn maps() -> Kind<ConfigMap> {
    Kind::typed()
}

#[test]
fn an_early_informer_starts_with_the_cache_and_a_later_one_at_once() {
    Arm::run(|arm| async move {
        arm.create("a", "1").await;
        let cache = arm.cache();
        let early = cache.get_informer(&maps()).expect("an informer");
        assert!(!early.is_running());
        assert!(arm.traffic.asked("configmaps").is_empty());
        cache.start();
        cache.start();
        let late = cache.get_informer(&Kind::<Secret>::typed()).expect("an informer");
        assert!(early.is_running() && late.is_running());
        cache.wait_for_sync(PATIENCE).await.expect("in sync");
        assert_eq!(names(&early.indexer().list()), ["a"]);
        assert!(late.has_synced());
    });
}

#[test]
fn users_of_the_same_informer_share_one_watch_which_ends_with_the_last() {
    Arm::run(|arm| async move {
        let cache = arm.cache();
        cache.start();
        let one = cache.get_informer(&maps()).expect("an informer");
        let other = cache.get_informer(&maps()).expect("an informer");
        let clone = other.clone();
        cache.wait_for_sync(PATIENCE).await.expect("in sync");
        assert_eq!(arm.traffic.open("configmaps").len(), 1);
        drop(one);
        drop(other);
        arm.create("a", "1").await;
        arm.until("the last user gets the event", || clone.indexer().len() == 1).await;
        assert_eq!(arm.traffic.open("configmaps").len(), 1);
        drop(clone);
        arm.until("the watch is closed", || arm.traffic.open("configmaps").is_empty()).await;
        assert!(cache.stats().is_empty());
        // A later user gets a new informer.
        let again = cache.get_informer(&maps()).expect("an informer");
        again.wait_for_sync(PATIENCE).await.expect("in sync");
        assert_eq!(held(&again), arm.truth().await);
    });
}

#[test]
fn a_handler_gets_no_event_after_the_last_user_left() {
    Arm::run(|arm| async move {
        let cache = arm.cache();
        cache.start();
        let informer = cache.get_informer(&maps()).expect("an informer");
        let (witness, registration) = Witness::of(&informer);
        assert!(registration.wait_synced().await);
        drop(informer);
        arm.until("the watch is closed", || arm.traffic.open("configmaps").is_empty()).await;
        arm.create("a", "1").await;
        let other = cache.get_informer(&maps()).expect("an informer");
        other.wait_for_sync(PATIENCE).await.expect("in sync");
        assert_eq!(other.indexer().len(), 1);
        assert_eq!(witness.count(), 0);
    });
}

#[test]
fn a_read_or_indexed_informer_outlives_its_users() {
    Arm::run(|arm| async move {
        let cache = arm.cache();
        cache.start();
        let secrets = Kind::<Secret>::typed();
        let informer = cache.get_informer(&maps()).expect("an informer");
        cache.list(&maps(), &ListQuery::new()).await.expect("in sync");
        drop(informer);
        let informer = cache.get_informer(&secrets).expect("an informer");
        cache.add_index(&secrets, "nothing", |_| Vec::new()).expect("a new index");
        drop(informer);
        cache.wait_for_sync(PATIENCE).await.expect("in sync");
        arm.create("a", "1").await;
        let lister = cache.lister(&maps()).await.expect("in sync");
        arm.until("a is held", || lister.get(&ObjectKey::new(&arm.namespace, "a")).is_some()).await;
        assert_eq!(arm.traffic.open("configmaps").len(), 1);
        assert_eq!(arm.traffic.open("secrets").len(), 1);
        assert_eq!(arm.traffic.asked("configmaps").len(), 1);
    });
}

#[test]
fn a_removed_informer_ends_despite_users_and_is_replaced_on_demand() {
    Arm::run(|arm| async move {
        arm.create("a", "1").await;
        let cache = arm.cache();
        cache.start();
        let removed = cache.get_informer(&maps()).expect("an informer");
        let resource = ApiResource::erase::<ConfigMap>(&());
        let dynamic = cache.get_informer(&Kind::dynamic(resource, true)).expect("an informer");
        cache.list(&maps(), &ListQuery::new()).await.expect("in sync");
        cache.wait_for_sync(PATIENCE).await.expect("in sync");
        assert!(cache.remove_informer(&maps()).await);
        assert!(!removed.is_running());
        arm.until("its watch is closed", || arm.traffic.open("configmaps").len() == 1).await;
        assert!(dynamic.is_running(), "another form is another informer");
        assert!(!cache.remove_informer(&maps()).await, "there is none any more");
        arm.create("b", "1").await;
        let found = cache.list(&maps(), &ListQuery::new()).await.expect("in sync");
        assert_eq!(names(&found), ["a", "b"]);
        assert_eq!(names(&removed.indexer().list()), ["a"], "a removed informer keeps its objects");
        // A user of the removed informer does not count for the new one.
        let came = cache.get_informer(&maps()).expect("an informer");
        drop(removed);
        assert!(came.is_running());
        assert_eq!(arm.traffic.open("configmaps").len(), 2);
    });
}

#[test]
fn a_wait_for_a_removed_informer_ends() {
    Arm::run(|arm| async move {
        let cache = arm.cache();
        cache.start();
        // This never syncs.
        let websites = Kind::dynamic(Custom::of(&arm).resource, true);
        let query = ListQuery::new();
        let waiting = cache.list(&websites, &query);
        let removing = async {
            arm.until("there is an informer", || cache.stats().len() == 1).await;
            cache.remove_informer(&websites).await
        };
        let (read, sync, removed) = tokio::join!(waiting, cache.wait_for_sync(PATIENCE), removing);
        assert!(removed);
        assert_eq!(read, Err(CacheError::Removed { kind: websites.to_string() }));
        assert_eq!(sync, Ok(()), "the wait ends with the removed informer");
    });
}

#[test]
fn a_read_ends_when_the_cache_is_stopped() {
    Arm::run(|arm| async move {
        let cache = arm.cache();
        cache.start();
        let websites = Kind::dynamic(Custom::of(&arm).resource, true);
        let query = ListQuery::new();
        let stopping = async {
            arm.until("there is an informer", || cache.stats().len() == 1).await;
            cache.stop().await;
        };
        let (read, ()) = tokio::join!(cache.list(&websites, &query), stopping);
        assert_eq!(read, Err(CacheError::NotStarted { kind: websites.to_string() }));
    });
}

#[test]
fn a_cancelled_read_leaves_the_informer_running() {
    Arm::run(|arm| async move {
        let custom = Custom::of(&arm);
        let cache = arm.cache();
        cache.start();
        let websites = Kind::dynamic(custom.resource.clone(), true);
        let query = ListQuery::new();
        let read = arm.clock.timeout(Duration::from_millis(200), cache.list(&websites, &query)).await;
        assert!(read.is_err(), "it waits");
        assert_eq!(cache.stats().len(), 1);
        custom.install(&arm).await;
        assert!(cache.list(&websites, &query).await.expect("in sync").is_empty());
    });
}

#[test]
fn a_restarted_cache_delivers_missed_changes() {
    Arm::run(|arm| async move {
        arm.create("changes", "1").await;
        arm.create("goes", "1").await;
        let cache = arm.cache();
        let informer = cache.get_informer(&maps()).expect("an informer");
        let (witness, registration) = Witness::of(&informer);
        cache.start();
        assert!(registration.wait_synced().await);
        cache.stop().await;
        arm.until("the watch is closed", || arm.traffic.open("configmaps").is_empty()).await;
        arm.update("changes", "2").await;
        arm.delete("goes").await;
        // A kind that has synced stays readable, in its last state.
        let key = ObjectKey::new(&arm.namespace, "changes");
        let found = cache.get(&maps(), &key).await.expect("it was in sync").expect("it was there");
        assert_eq!(value(&found), "1");
        // Changes during the stop arrive after the start.
        let secrets = cache.get_informer(&Kind::<Secret>::typed()).expect("an informer");
        assert!(!secrets.is_running());
        cache.start();
        cache.wait_for_sync(PATIENCE).await.expect("in sync");
        arm.until("all events arrive", || witness.count() == 4).await;
        assert_eq!(witness.lines_after(2), ["-goes=1", "changes=1>2"]);
        assert_eq!(witness.view(), arm.truth().await);
        assert!(secrets.has_synced());
    });
}

#[test]
fn two_caches_of_one_server_are_independent() {
    Arm::run(|arm| async move {
        arm.create("a", "1").await;
        let (one, other) = (arm.cache(), arm.cache());
        one.start();
        other.start();
        let query = ListQuery::new();
        assert_eq!(names(&one.list(&maps(), &query).await.expect("in sync")), ["a"]);
        assert_eq!(names(&other.list(&maps(), &query).await.expect("in sync")), ["a"]);
        assert_eq!(arm.traffic.open("configmaps").len(), 2);
        assert!(one.remove_informer(&maps()).await);
        one.stop().await;
        arm.until("one watch is closed", || arm.traffic.open("configmaps").len() == 1).await;
        arm.create("b", "1").await;
        let lister = other.lister(&maps()).await.expect("in sync");
        arm.until("the other follows", || lister.get(&ObjectKey::new(&arm.namespace, "b")).is_some()).await;
        assert!(one.list(&maps(), &query).await.is_err());
    });
}

#[test]
fn a_cache_that_is_dropped_ends_its_watches() {
    Arm::run(|arm| async move {
        let cache = arm.cache();
        cache.start();
        cache.list(&maps(), &ListQuery::new()).await.expect("in sync");
        let informer = cache.get_informer(&Kind::<Secret>::typed()).expect("an informer");
        informer.wait_for_sync(PATIENCE).await.expect("in sync");
        let clone = cache.clone();
        drop(cache);
        assert_eq!(arm.traffic.open("configmaps").len(), 1, "a clone is the same cache");
        drop(clone);
        arm.until("all watches are closed", || {
            arm.traffic.open("configmaps").is_empty() && arm.traffic.open("secrets").is_empty()
        })
        .await;
    });
}

#[test]
fn kinds_that_have_not_synced_are_named() {
    Arm::run(|arm| async move {
        let cache = arm.cache();
        let _maps = cache.get_informer(&maps()).expect("an informer");
        let error = cache.wait_for_sync(Duration::from_millis(100)).await.expect_err("it was not started");
        assert_eq!(
            error.to_string(),
            format!("not in sync after 100ms: configmaps (v1) in namespace {} (stopped)", arm.namespace)
        );
        cache.start();
        cache.wait_for_sync(PATIENCE).await.expect("in sync");
        assert_eq!(arm.cache().wait_for_sync(Duration::ZERO).await, Ok(()), "there is nothing to wait for");
    });
}

//! Reads from a cache.

use std::time::Duration;

use bowline_cache::{CacheError, CacheOptions, IndexError, Kind, ListQuery, ObjectKey, SelectionSettings};
use bowline_machinery::LabelSelector;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use crate::arm::{Arm, names, value};

fn maps() -> Kind<ConfigMap> {
    Kind::typed()
}

fn selector(text: &str) -> LabelSelector {
    LabelSelector::parse(text).expect("a selector")
}

#[test]
fn an_object_is_found_by_its_key_and_one_that_is_not_there_is_none() {
    Arm::run(|arm| async move {
        arm.create("a", "1").await;
        let cache = arm.cache();
        cache.start();
        let a = cache.get(&maps(), &ObjectKey::new(&arm.namespace, "a")).await.expect("in sync");
        assert_eq!(value(&a.expect("it is there")), "1");
        let b = cache.get(&maps(), &ObjectKey::new(&arm.namespace, "b")).await.expect("in sync");
        assert!(b.is_none());
        assert_eq!(arm.traffic.open("configmaps").len(), 1, "the second read needs no other watch");
    });
}

#[test]
fn a_key_without_a_namespace_is_an_error_where_objects_have_one() {
    Arm::run(|arm| async move {
        let cache = arm.cache();
        cache.start();
        let error = cache.get(&maps(), &ObjectKey::new("", "a")).await.expect_err("there is no such object");
        assert_eq!(
            error.to_string(),
            "configmaps (v1) a cannot be read without a namespace: the kind is namespaced"
        );
    });
}

#[test]
fn a_malformed_key_is_an_error() {
    for text in ["", "/", "a/", "/a", "a/b/c"] {
        assert!(text.parse::<ObjectKey>().is_err(), "{text:?}");
    }
}

#[test]
fn a_list_is_filtered_by_labels_namespace_and_limit() {
    Arm::run(|arm| async move {
        let other = arm.another_namespace().await;
        for name in ["a", "b", "c"] {
            arm.create_labelled(&arm.namespace, name, &[("app", "web")]).await;
            arm.create_labelled(&other, name, &[("app", "web")]).await;
        }
        arm.create_labelled(&arm.namespace, "d", &[("app", "other")]).await;
        let both =
            [(arm.namespace.as_str(), SelectionSettings::new()), (other.as_str(), SelectionSettings::new())];
        let cache = arm.cache_with(CacheOptions::new().namespaces(both));
        cache.start();
        let list = async |query: ListQuery| names(&cache.list(&maps(), &query).await.expect("in sync"));
        let here = || ListQuery::new().in_namespace(&arm.namespace);
        assert_eq!(list(ListQuery::new()).await.len(), 7);
        assert_eq!(list(here()).await, ["a", "b", "c", "d"]);
        assert_eq!(list(here().labels(selector("app=web"))).await, ["a", "b", "c"]);
        assert_eq!(list(here().labels(selector("app!=web"))).await, ["d"]);
        assert_eq!(list(ListQuery::new().labels(selector("app=other"))).await, ["d"]);
        assert_eq!(list(here().limit(2)).await, ["a", "b"]);
        assert_eq!(list(here().labels(selector("app=web")).limit(0)).await, [""; 0]);
    });
}

#[test]
fn fields_are_indexed_by_name_and_several_have_to_be_true_at_once() {
    Arm::run(|arm| async move {
        let other = arm.another_namespace().await;
        for (name, data) in [("a", "1"), ("b", "1"), ("c", "2")] {
            arm.create(name, data).await;
            arm.create_in(&other, name, data).await;
        }
        arm.create_labelled(&arm.namespace, "labelled", &[("app", "web")]).await;
        let both =
            [(arm.namespace.as_str(), SelectionSettings::new()), (other.as_str(), SelectionSettings::new())];
        let cache = arm.cache_with(CacheOptions::new().namespaces(both));
        let value_of = |map: &ConfigMap| vec![value(map).to_owned()];
        cache.add_index(&maps(), "value", value_of).expect("a new index");
        cache.start();
        // An index may be added later.
        cache.list(&maps(), &ListQuery::new()).await.expect("in sync");
        cache
            .add_index(&maps(), "name", |map| vec![map.metadata.name.clone().unwrap_or_default()])
            .expect("a new index");
        let list = async |query: ListQuery| names(&cache.list(&maps(), &query).await.expect("in sync"));
        let here = || ListQuery::new().in_namespace(&arm.namespace).index("value", "1");
        assert_eq!(list(ListQuery::new().index("value", "2")).await, ["c", "c"]);
        assert_eq!(list(here()).await, ["a", "b", "labelled"]);
        assert_eq!(list(here().index("name", "b")).await, ["b"]);
        assert_eq!(list(here().index("name", "c")).await, [""; 0]);
        assert_eq!(list(here().labels(selector("app=web"))).await, ["labelled"]);
        assert_eq!(list(here().labels(selector("!app")).limit(1)).await, ["a"]);
        let lister = cache.namespace_lister(&maps(), &other).await.expect("in sync");
        assert_eq!(names(&lister.by_index("value", "1").expect("an index")), ["a", "b"]);
        arm.update("a", "2").await;
        arm.until("the index follows", || {
            let found = lister_of(&cache, &maps()).by_index("value", "2").expect("an index");
            found.len() == 3
        })
        .await;
        assert_eq!(list(here()).await, ["b", "labelled"]);
    });
}

/// A lister of a synced kind.
fn lister_of(
    cache: &bowline_cache::InformerCache,
    kind: &Kind<ConfigMap>,
) -> bowline_cache::Lister<ConfigMap> {
    cache.get_informer(kind).expect("an informer").lister()
}

#[test]
fn an_index_that_is_unknown_or_taken_is_an_error() {
    Arm::run(|arm| async move {
        let cache = arm.cache();
        cache.start();
        let none = |_: &ConfigMap| Vec::new();
        cache.add_index(&maps(), "value", none).expect("a new index");
        let taken = cache.add_index(&maps(), "value", none).expect_err("there is one");
        assert!(matches!(&taken, CacheError::Index(IndexError::Taken { .. })), "{taken:?}");
        for query in
            [ListQuery::new().index("other", "1"), ListQuery::new().index("value", "1").index("other", "1")]
        {
            let unknown = cache.list(&maps(), &query).await.expect_err("there is none");
            assert!(matches!(&unknown, CacheError::Index(IndexError::Unknown { .. })), "{unknown:?}");
            assert!(unknown.to_string().contains("other"), "{unknown}");
        }
        // Another representation of the kind is another informer.
        let metadata = Kind::<kube::core::PartialObjectMeta<ConfigMap>>::metadata();
        cache.add_index(&metadata, "value", |_| Vec::new()).expect("a new index");
    });
}

#[test]
fn listers_read_a_kind_or_a_namespace_of_it_and_follow_it() {
    Arm::run(|arm| async move {
        let other = arm.another_namespace().await;
        arm.create_labelled(&arm.namespace, "a", &[("app", "web")]).await;
        arm.create_in(&other, "b", "1").await;
        let both =
            [(arm.namespace.as_str(), SelectionSettings::new()), (other.as_str(), SelectionSettings::new())];
        let cache = arm.cache_with(CacheOptions::new().namespaces(both));
        cache.start();
        let all = cache.lister(&maps()).await.expect("in sync");
        let there = cache.namespace_lister(&maps(), &other).await.expect("in sync");
        assert_eq!(all.list(&LabelSelector::everything()).len(), 2);
        assert_eq!(names(&all.list(&selector("app=web"))), ["a"]);
        assert!(all.get(&ObjectKey::new(&other, "b")).is_some());
        assert!(there.get("b").is_some() && there.get("a").is_none());
        arm.create_in(&other, "c", "1").await;
        arm.until("c is held", || there.clone().get("c").is_some()).await;
        assert_eq!(names(&there.list(&LabelSelector::everything())), ["b", "c"]);
    });
}

#[test]
fn a_namespace_that_is_not_cached_is_an_error_that_names_the_cached_ones() {
    Arm::run(|arm| async move {
        let cache = arm.cache();
        cache.start();
        let query = ListQuery::new().in_namespace("elsewhere");
        let expected = format!(
            "configmaps (v1) in namespace elsewhere is not cached: the cache has namespace {}; cache that namespace too, \
             or read it live",
            arm.namespace
        );
        let error = cache.list(&maps(), &query).await.expect_err("it is not cached");
        assert_eq!(error.to_string(), expected);
        let error =
            cache.get(&maps(), &ObjectKey::new("elsewhere", "a")).await.expect_err("it is not cached");
        assert_eq!(error.to_string(), expected);
        let error = cache.namespace_lister(&maps(), "elsewhere").await.expect_err("it is not cached");
        assert_eq!(error.to_string(), expected);
        assert!(arm.traffic.asked("configmaps").is_empty(), "and nothing is started for it");
        // Reads without a namespace return the cached namespaces.
        assert!(cache.list(&maps(), &ListQuery::new()).await.expect("in sync").is_empty());
        let error = cache.list(&maps(), &query).await.expect_err("it is not cached");
        assert_eq!(error.to_string(), expected);
    });
}

#[test]
fn a_read_before_the_start_is_an_error_and_leaves_nothing_behind() {
    Arm::run(|arm| async move {
        let cache = arm.cache();
        let error = cache.list(&maps(), &ListQuery::new()).await.expect_err("it is not started");
        assert_eq!(
            error.to_string(),
            "the cache is not started, so configmaps (v1) cannot be read: call `start` first"
        );
        assert!(cache.stats().is_empty());
        // Also with an informer.
        let informer = cache.get_informer(&maps()).expect("an informer");
        let error = cache.lister(&maps()).await.expect_err("it is not started");
        assert!(matches!(error, CacheError::NotStarted { .. }), "{error:?}");
        drop(informer);
        assert!(cache.stats().is_empty());
        cache.start();
        assert!(cache.list(&maps(), &ListQuery::new()).await.expect("in sync").is_empty());
    });
}

#[test]
fn a_cache_that_fails_on_missing_informers_reads_only_requested_kinds() {
    Arm::run(|arm| async move {
        arm.create("a", "1").await;
        let cache = arm.cache_with(arm.options().fail_on_missing_informer());
        cache.start();
        let error = cache.list(&maps(), &ListQuery::new()).await.expect_err("there is no informer");
        assert_eq!(
            error.to_string(),
            "there is no informer of configmaps (v1), and the cache is set to fail then: call \
             `get_informer` first"
        );
        let informer = cache.get_informer(&maps()).expect("an informer");
        assert_eq!(names(&cache.list(&maps(), &ListQuery::new()).await.expect("in sync")), ["a"]);
        let error = cache.lister(&Kind::<Secret>::typed()).await.expect_err("there is no informer");
        assert!(matches!(error, CacheError::NoInformer { .. }), "{error:?}");
        // It ends with its last user.
        drop(informer);
        arm.until("its watch is closed", || arm.traffic.open("configmaps").is_empty()).await;
        let error = cache.list(&maps(), &ListQuery::new()).await.expect_err("there is no informer");
        assert!(matches!(error, CacheError::NoInformer { .. }), "{error:?}");
        // An index creates an informer and keeps it.
        cache.add_index(&maps(), "value", |map| vec![value(map).to_owned()]).expect("a new index");
        let found = cache.list(&maps(), &ListQuery::new().index("value", "1")).await.expect("in sync");
        assert_eq!(names(&found), ["a"]);
    });
}

#[test]
fn concurrent_reads_share_one_watch() {
    Arm::run(|arm| async move {
        arm.create("a", "1").await;
        let cache = arm.cache();
        cache.start();
        let kind = maps();
        let query = ListQuery::new();
        let reads = futures::future::join_all((0..50).map(|_| cache.list(&kind, &query))).await;
        assert!(reads.into_iter().all(|read| names(&read.expect("in sync")) == ["a"]));
        assert_eq!(arm.traffic.asked("configmaps").len(), 1);
        arm.clock.sleep(Duration::from_millis(1)).await;
        assert_eq!(cache.stats().len(), 1);
    });
}

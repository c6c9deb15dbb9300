//! Waiting.

use std::sync::Mutex;
use std::time::Duration;

use bowline_testing::TestEnv;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::ResourceExt as _;
use kube::api::DeleteParams;

use crate::website::{change_map, create_map, maps, value};

#[test]
fn an_object_that_is_there_is_not_waited_for() {
    TestEnv::test(async |env| {
        create_map(&env, "a", "1").await;
        let map = env.wait_for::<ConfigMap>("a", |map| value(map) == "1").await.unwrap();
        assert_eq!((map.name_any().as_str(), map.namespace().as_deref()), ("a", Some(env.namespace())));
    });
}

#[test]
fn a_wait_sees_every_change_and_ends_with_the_first_that_it_is_for() {
    TestEnv::test(async |env| {
        create_map(&env, "a", "1").await;
        create_map(&env, "b", "9").await;
        let seen = Mutex::new(Vec::new());
        let wait = env.wait_for::<ConfigMap>("a", |map| {
            seen.lock().unwrap().push(value(map).to_owned());
            value(map) == "5"
        });
        let changes = async {
            env.wait_until("the first is seen", async || !seen.lock().unwrap().is_empty()).await.unwrap();
            for number in 2..=9 {
                change_map(&env, "a", &number.to_string()).await;
            }
        };
        let (map, ()) = tokio::join!(wait, changes);
        assert_eq!(value(&map.unwrap()), "5");
        assert_eq!(*seen.lock().unwrap(), ["1", "2", "3", "4", "5"]);
    });
}

#[test]
fn an_object_that_comes_later_is_waited_for() {
    TestEnv::test(async |env| {
        let later = async {
            env.clock().sleep(Duration::from_millis(200)).await;
            create_map(&env, "a", "1").await;
        };
        let (map, ()) = tokio::join!(env.wait_for::<ConfigMap>("a", |_| true), later);
        assert_eq!(value(&map.unwrap()), "1");
    });
}

#[test]
fn an_object_in_no_namespace_is_waited_for() {
    TestEnv::test(async |env| {
        let namespace = env.wait_for::<Namespace>(env.namespace(), |_| true).await.unwrap();
        assert_eq!(namespace.name_any(), env.namespace());
    });
}

#[test]
fn gone_is_what_never_was_and_what_is_deleted() {
    TestEnv::test(async |env| {
        env.wait_until_gone::<ConfigMap>("a").await.unwrap();
        create_map(&env, "a", "1").await;
        let later = async {
            env.clock().sleep(Duration::from_millis(200)).await;
            maps(&env).delete("a", &DeleteParams::default()).await.unwrap();
        };
        let (gone, ()) = tokio::join!(env.wait_until_gone::<ConfigMap>("a"), later);
        gone.unwrap();
        assert!(maps(&env).get_opt("a").await.unwrap().is_none());
    });
}

#[test]
fn a_condition_of_all_objects_sees_them_sorted_and_none_of_other_namespaces() {
    TestEnv::test(async |env| {
        create_map(&env, "b", "1").await;
        let later = async {
            env.clock().sleep(Duration::from_millis(200)).await;
            create_map(&env, "a", "2").await;
        };
        // A real cluster puts one with its certificates into each namespace.
        let ours = |name: &str| name != "kube-root-ca.crt";
        let two = env.wait_for_all::<ConfigMap>("two config maps", |maps| {
            maps.iter().filter(|map| ours(&map.name_any())).count() == 2
        });
        let (maps, ()) = tokio::join!(two, later);
        let names =
            maps.unwrap().iter().map(|map| map.name_any()).filter(|name| ours(name)).collect::<Vec<_>>();
        assert_eq!(names, ["a", "b"]);
    });
}

#[test]
fn anything_else_is_looked_at_until_it_is_so() {
    TestEnv::test(async |env| {
        let start = env.clock().now();
        env.wait_until("a while has passed", async || {
            env.clock().now().duration_since(start) >= Duration::from_millis(100)
        })
        .await
        .unwrap();
        assert!(env.clock().now().duration_since(start) < Duration::from_secs(5));
    });
}

#[test]
fn a_wait_takes_as_long_as_it_may_and_no_longer() {
    TestEnv::builder().test(async |env| {
        let start = env.clock().now();
        env.wait_for::<ConfigMap>("a", |_| true).await.unwrap_err();
        assert_eq!(env.clock().now().duration_since(start), Duration::from_secs(10));
        env.within(Duration::from_secs(3600)).wait_until("never", async || false).await.unwrap_err();
        assert_eq!(env.clock().now().duration_since(start), Duration::from_secs(3610));
    });
}

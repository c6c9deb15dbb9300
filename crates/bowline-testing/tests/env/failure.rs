//! The error of a wait that timed out.

use std::sync::Arc;
use std::time::Duration;

use bowline_cache::ObjectKey;
use bowline_runtime::{
    Action, Context, Error, EventType, Manager, Request, Result, Watch, handler, ownership::OwnerExt as _,
    source, terminal,
};
use bowline_testing::{TestEnv, WaitError};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use kube::api::DeleteParams;

use crate::website::{Website, create_map, maps};

/// The text without line numbers and uids.
fn shown(error: &WaitError) -> String {
    let text = error.to_string();
    assert_eq!(format!("{error:?}"), text, "a test that unwraps shows the same");
    let lines = text.lines().map(|line| match line.split_once("failure.rs:") {
        Some((before, _)) => format!("{before}failure.rs:LINE"),
        None if line.trim_start().starts_with("uid: ") => "    uid: UID".to_owned(),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn an_object_that_is_not_as_it_should_be_is_shown() {
    TestEnv::builder().test(async |env| {
        create_map(&env, "a", "1").await;
        let error = env.wait_for::<ConfigMap>("a", |map| map.immutable == Some(true)).await.unwrap_err();
        insta::assert_snapshot!(shown(&error), @r#"
        waited 10s for ConfigMap test/a to meet the condition, at crates/bowline-testing/tests/env/failure.rs:LINE

        last seen:
          apiVersion: v1
          data:
            value: "1"
          kind: ConfigMap
          metadata:
            creationTimestamp: "2030-01-01T00:00:00Z"
            name: a
            namespace: test
            resourceVersion: "10"
            uid: UID

        there are no events in namespace test

        nothing was reconciled
        "#);
    });
}

#[test]
fn the_last_events_and_reconciles_are_told_with_their_triggers() {
    async fn refuse(ctx: Context, map: Arc<ConfigMap>) -> Result<Action> {
        if map.name_any() == "good" {
            return Ok(Action::done());
        }
        let message = "there is no cheese";
        ctx.recorder().event(&*map, EventType::Warning, "NoCheese", message);
        if map.name_any() == "worst" { Err(terminal(message)) } else { Err(Error::message(message)) }
    }
    TestEnv::builder().test(async |env| {
        create_map(&env, "good", "1").await;
        env.start(|manager: &Manager| manager.controller::<ConfigMap>().register(refuse)).await.unwrap();
        env.clock().sleep(Duration::from_secs(5)).await;
        create_map(&env, "bad", "1").await;
        env.clock().sleep(Duration::from_secs(5)).await;
        create_map(&env, "worst", "1").await;
        let error = env
            .within(Duration::from_millis(1500))
            .wait_for::<ConfigMap>("bad", |map| map.immutable == Some(true))
            .await
            .unwrap_err();
        insta::assert_snapshot!(shown(&error), @r#"
        waited 1.5s for ConfigMap test/bad to meet the condition, at crates/bowline-testing/tests/env/failure.rs:LINE

        last seen:
          apiVersion: v1
          data:
            value: "1"
          kind: ConfigMap
          metadata:
            creationTimestamp: "2030-01-01T00:00:05Z"
            name: bad
            namespace: test
            resourceVersion: "11"
            uid: UID

        last events in namespace test:
            6.4s ago  Warning NoCheese ConfigMap/bad: there is no cheese (2 times)
            1.5s ago  Warning NoCheese ConfigMap/worst: there is no cheese

        last reconciles for ConfigMap test/bad:
            6.4s ago  configmap test/bad (ConfigMap created), attempt 2, 0.0ns: failed: there is no cheese
            6.4s ago  configmap test/bad (ConfigMap created), attempt 3, 0.0ns: failed: there is no cheese
            6.4s ago  configmap test/bad (ConfigMap created), attempt 4, 0.0ns: failed: there is no cheese
            6.4s ago  configmap test/bad (ConfigMap created), attempt 5, 0.0ns: failed: there is no cheese
            6.3s ago  configmap test/bad (ConfigMap created), attempt 6, 0.0ns: failed: there is no cheese
            6.1s ago  configmap test/bad (ConfigMap created), attempt 7, 0.0ns: failed: there is no cheese
            5.8s ago  configmap test/bad (ConfigMap created), attempt 8, 0.0ns: failed: there is no cheese
            5.2s ago  configmap test/bad (ConfigMap created), attempt 9, 0.0ns: failed: there is no cheese
            3.9s ago  configmap test/bad (ConfigMap created), attempt 10, 0.0ns: failed: there is no cheese
            1.3s ago  configmap test/bad (ConfigMap created), attempt 11, 0.0ns: failed: there is no cheese

        last other reconciles:
           11.5s ago  configmap test/good (ConfigMap initial), 0.0ns: done
            1.5s ago  configmap test/worst (ConfigMap created), 0.0ns: failed for good: there is no cheese
        "#);
    });
}

#[test]
fn reconciles_for_the_awaited_object_come_first_however_many_others_there_were() {
    async fn look(_: Context, map: Arc<ConfigMap>) -> Result<Action> {
        if map.name_any() == "bad" { Err(terminal("there is no cheese")) } else { Ok(Action::done()) }
    }
    /// A Secret is for the config map that its label names.
    fn labelled(secret: &Secret) -> Vec<Request> {
        let label = secret.labels().get("map");
        label
            .map(|map| Request::new(secret.namespace().as_deref().unwrap_or_default(), map))
            .into_iter()
            .collect()
    }
    TestEnv::builder().test(async |env| {
        let operator = |manager: &Manager| {
            let controller = manager.controller::<ConfigMap>().owns::<Secret>();
            controller.watches(Watch::new(source::kind::<Secret>(), handler::map(labelled))).register(look)
        };
        env.start(operator).await.unwrap();
        create_map(&env, "bad", "1").await;
        env.clock().sleep(Duration::from_secs(1)).await;
        let owner = env.client().get::<ConfigMap>(&ObjectKey::new("test", "bad")).await.unwrap();
        let mut owned = owner.child::<Secret>("owned").unwrap();
        owned.metadata.namespace = Some("test".to_owned());
        env.client().create(&owned).await.unwrap();
        env.clock().sleep(Duration::from_secs(1)).await;
        for number in 0..20 {
            create_map(&env, &format!("good-{number}"), "1").await;
            env.clock().sleep(Duration::from_millis(10)).await;
        }
        let short = env.within(Duration::from_millis(100));
        let runs = |error: &WaitError| {
            let text = error.to_string();
            text[text.find("test\n\n").expect("the events are before") + "test\n\n".len()..].to_owned()
        };
        let error = short.wait_for::<ConfigMap>("bad", |_| false).await.unwrap_err();
        insta::assert_snapshot!(runs(&error), @"
        last reconciles for ConfigMap test/bad:
            2.3s ago  configmap test/bad (ConfigMap created), 0.0ns: failed for good: there is no cheese
            1.3s ago  configmap test/bad (Secret test/owned created), 0.0ns: failed for good: there is no cheese

        last other reconciles:
           200ms ago  configmap test/good-10 (ConfigMap created), 0.0ns: done
           190ms ago  configmap test/good-11 (ConfigMap created), 0.0ns: done
           180ms ago  configmap test/good-12 (ConfigMap created), 0.0ns: done
           170ms ago  configmap test/good-13 (ConfigMap created), 0.0ns: done
           160ms ago  configmap test/good-14 (ConfigMap created), 0.0ns: done
           150ms ago  configmap test/good-15 (ConfigMap created), 0.0ns: done
           140ms ago  configmap test/good-16 (ConfigMap created), 0.0ns: done
           130ms ago  configmap test/good-17 (ConfigMap created), 0.0ns: done
           120ms ago  configmap test/good-18 (ConfigMap created), 0.0ns: done
           110ms ago  configmap test/good-19 (ConfigMap created), 0.0ns: done
        ");

        // A child has its owner's reconciles, gone or not.
        let error = short.wait_until_gone::<Secret>("owned").await.unwrap_err();
        let text = runs(&error);
        let first = text.lines().take(3).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(first, @"
        last reconciles for Secret test/owned:
            2.4s ago  configmap test/bad (ConfigMap created), 0.0ns: failed for good: there is no cheese
            1.4s ago  configmap test/bad (Secret test/owned created), 0.0ns: failed for good: there is no cheese
        ");

        // Reconciles with an object as their trigger count as its own.
        let mut secret = Secret::default();
        secret.metadata.name = Some("label".to_owned());
        secret.metadata.labels = Some([("map".to_owned(), "good-3".to_owned())].into());
        env.client().create(&secret).await.unwrap();
        let error = short.wait_for::<Secret>("label", |_| false).await.unwrap_err();
        let first = runs(&error).lines().take(3).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(first, @"
        last reconciles for Secret test/label:
           100ms ago  configmap test/good-3 (Secret test/label created), 0.0ns: done
        ");

        let error = short.wait_for::<Secret>("none", |_| false).await.unwrap_err();
        let first = runs(&error).lines().take(3).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(first, @"
        no reconcile was for Secret test/none

        last other reconciles:
        ");
    });
}

#[test]
fn an_object_that_never_was_there_is_not_found() {
    TestEnv::builder().test(async |env| {
        let error = env.wait_for::<ConfigMap>("a", |_| true).await.unwrap_err();
        insta::assert_snapshot!(shown(&error), @"
        waited 10s for ConfigMap test/a to meet the condition, at crates/bowline-testing/tests/env/failure.rs:LINE

        not found at any time

        there are no events in namespace test

        nothing was reconciled
        ");
    });
}

#[test]
fn an_object_that_is_gone_is_shown_as_it_was() {
    TestEnv::builder().test(async |env| {
        create_map(&env, "a", "1").await;
        let wait = env.wait_for::<ConfigMap>("a", |map| map.immutable == Some(true));
        let later = async {
            env.clock().sleep(Duration::from_secs(1)).await;
            maps(&env).delete("a", &DeleteParams::default()).await.unwrap();
        };
        let (error, ()) = tokio::join!(wait, later);
        insta::assert_snapshot!(shown(&error.unwrap_err()), @r#"
        waited 10s for ConfigMap test/a to meet the condition, at crates/bowline-testing/tests/env/failure.rs:LINE

        not found: it was deleted; last state:
          apiVersion: v1
          data:
            value: "1"
          kind: ConfigMap
          metadata:
            creationTimestamp: "2030-01-01T00:00:00Z"
            name: a
            namespace: test
            resourceVersion: "11"
            uid: UID

        there are no events in namespace test

        nothing was reconciled
        "#);
    });
}

#[test]
fn of_many_objects_some_are_shown_and_the_others_named() {
    TestEnv::builder().test(async |env| {
        for name in ["a", "b", "c", "d", "e"] {
            create_map(&env, name, "1").await;
        }
        let error =
            env.wait_for_all::<ConfigMap>("six config maps", |maps| maps.len() == 6).await.unwrap_err();
        insta::assert_snapshot!(shown(&error), @r#"
        waited 10s for six config maps, at crates/bowline-testing/tests/env/failure.rs:LINE

        last seen:
          apiVersion: v1
          data:
            value: "1"
          kind: ConfigMap
          metadata:
            creationTimestamp: "2030-01-01T00:00:00Z"
            name: a
            namespace: test
            resourceVersion: "10"
            uid: UID
          ---
          apiVersion: v1
          data:
            value: "1"
          kind: ConfigMap
          metadata:
            creationTimestamp: "2030-01-01T00:00:00Z"
            name: b
            namespace: test
            resourceVersion: "11"
            uid: UID
          ---
          apiVersion: v1
          data:
            value: "1"
          kind: ConfigMap
          metadata:
            creationTimestamp: "2030-01-01T00:00:00Z"
            name: c
            namespace: test
            resourceVersion: "12"
            uid: UID

        and 2 more: d, e

        there are no events in namespace test

        nothing was reconciled
        "#);
    });
}

#[test]
fn a_server_that_does_not_tell_is_blamed() {
    TestEnv::builder().test(async |env| {
        let error = env.wait_for::<Website>("blog", |_| true).await.unwrap_err();
        insta::assert_snapshot!(shown(&error), @"
        waited 10s for Website test/blog to meet the condition, at crates/bowline-testing/tests/env/failure.rs:LINE

        no state was seen: 404 page not found (404 Not Found); is its CRD installed?

        there are no events in namespace test

        nothing was reconciled
        ");
    });
}

#[test]
fn a_condition_of_anything_else_is_named() {
    TestEnv::builder().test(async |env| {
        let error = env.wait_until("the moon is made of cheese", async || false).await.unwrap_err();
        insta::assert_snapshot!(shown(&error), @"
        waited 10s until the moon is made of cheese, at crates/bowline-testing/tests/env/failure.rs:LINE

        there are no events in namespace test

        nothing was reconciled
        ");
    });
}

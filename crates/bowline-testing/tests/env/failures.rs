//! The check that no reconcile failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bowline_runtime::{Action, Context, Error, Manager, ReconcileOutcome, Result, terminal};
use bowline_testing::TestEnv;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;

use crate::website::{change_map, create_map};

/// The message of the check, or none if it passes.
fn complaint(env: &TestEnv) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(|| env.assert_no_failures())).err()?;
    Some(panic.downcast_ref::<String>().expect("a message").clone())
}

/// Fails as the name of the object says; the first attempt of `once` only.
async fn by_name(ctx: Context, map: Arc<ConfigMap>) -> Result<Action> {
    match &*map.name_any() {
        "once" if ctx.attempt() == 1 => Err(Error::message("there is no cheese")),
        "terminal" => Err(terminal("there will never be cheese")),
        "panic" if ctx.attempt() == 1 => panic!("the moon is made of stone"),
        "slow" if ctx.attempt() == 1 => std::future::pending().await,
        _ => Ok(Action::done()),
    }
}

fn operator(manager: &Manager) -> Result<()> {
    manager.controller::<ConfigMap>().timeout(Duration::from_secs(2)).register(by_name)?;
    Ok(())
}

async fn wait_for_runs(env: &TestEnv, name: &str, runs: usize) {
    let ended = || env.history().runs().iter().filter(|run| run.request.name() == name).count();
    env.wait_until(&format!("{runs} reconciles of {name}"), async || ended() >= runs)
        .await
        .expect("they come");
}

#[test]
fn an_operator_that_never_failed_passes() {
    TestEnv::test(async |env| {
        env.assert_no_failures();
        env.start(operator).await.unwrap();
        create_map(&env, "a", "1").await;
        wait_for_runs(&env, "a", 1).await;
        env.assert_no_failures();
    });
}

#[test]
fn each_way_to_fail_is_reported_with_object_attempt_and_error() {
    TestEnv::builder().test(async |env| {
        env.start(operator).await.unwrap();
        for name in ["once", "terminal", "panic", "slow"] {
            create_map(&env, name, "1").await;
            env.clock().sleep(Duration::from_secs(1)).await;
        }
        env.clock().sleep(Duration::from_secs(3)).await;
        // Running reconciles are awaited, and an earlier failure remains a failure.
        env.finish().await.unwrap();
        insta::assert_snapshot!(complaint(&env).unwrap(), @"
        4 reconciles failed:
              7s ago  configmap test/once (ConfigMap created), 0.0ns: failed: there is no cheese
              6s ago  configmap test/terminal (ConfigMap created), 0.0ns: failed for good: there will never be cheese
              5s ago  configmap test/panic (ConfigMap created), 0.0ns: panicked: the reconciler panicked: the moon is made of stone
              4s ago  configmap test/slow (ConfigMap created), 2.0s: took too long
        ");
    });
}

#[test]
fn a_retry_that_fails_says_which_attempt_it_was() {
    async fn twice(ctx: Context, _: Arc<ConfigMap>) -> Result<Action> {
        if ctx.attempt() > 2 { Ok(Action::done()) } else { Err(Error::message("too early")) }
    }
    TestEnv::builder().test(async |env| {
        create_map(&env, "a", "1").await;
        env.start(|manager: &Manager| manager.controller::<ConfigMap>().register(twice)).await.unwrap();
        wait_for_runs(&env, "a", 3).await;
        insta::assert_snapshot!(complaint(&env).unwrap(), @"
        2 reconciles failed:
            20ms ago  configmap test/a (ConfigMap initial), 0.0ns: failed: too early
            15ms ago  configmap test/a (ConfigMap initial), attempt 2, 0.0ns: failed: too early
        ");
    });
}

#[test]
fn a_failure_is_reported_that_the_history_has_no_place_for_any_more() {
    TestEnv::builder().test(async |env| {
        env.start(operator).await.unwrap();
        create_map(&env, "once", "1").await;
        wait_for_runs(&env, "once", 2).await;
        create_map(&env, "good", "0").await;
        let failed = || env.history().runs().iter().any(|run| run.outcome.is_failure());
        for number in 1.. {
            if !failed() {
                break;
            }
            assert!(number < 10_000, "the history keeps 256 reconciles");
            change_map(&env, "good", &number.to_string()).await;
            env.clock().sleep(Duration::from_millis(1)).await;
        }
        let complaint = complaint(&env).expect("there was a failure");
        assert!(complaint.starts_with("1 reconcile failed:\n"), "{complaint}");
        assert!(complaint.ends_with("failed: there is no cheese"), "{complaint}");
    });
}

#[test]
fn more_failures_than_are_kept_are_counted() {
    async fn never(_: Context, _: Arc<ConfigMap>) -> Result<Action> {
        Err(terminal("no"))
    }
    TestEnv::builder().test(async |env| {
        for number in 0..70 {
            create_map(&env, &number.to_string(), "1").await;
        }
        env.start(|manager: &Manager| manager.controller::<ConfigMap>().register(never)).await.unwrap();
        let all = || env.history().failures().total;
        env.wait_until("there were 70 failures", async || all() >= 70).await.unwrap();
        let complaint = complaint(&env).unwrap();
        assert_eq!(complaint.lines().next(), Some("70 reconciles failed; the last 64:"));
        assert_eq!(complaint.lines().count(), 65);
    });
}

#[test]
fn failures_on_a_further_cluster_of_the_manager_are_reported() {
    TestEnv::test(async |env| {
        let (kube, namespace) = (env.kube_client().clone(), env.namespace().to_owned());
        let look = move |_: Context, map: Arc<ConfigMap>| {
            let is_ours = map.namespace().as_deref() == Some(&*namespace);
            async move { if is_ours { Err(terminal("not here")) } else { Ok(Action::done()) } }
        };
        let operator = move |manager: &Manager| {
            let hub = manager.add_cluster("hub", manager.connect(kube.clone())?)?;
            manager.add(hub.controller::<ConfigMap>().named("on-hub").build(look.clone())?)
        };
        env.start(operator).await.unwrap();
        create_map(&env, "a", "1").await;
        let failed = || env.history().failures().last;
        env.wait_until("it failed", async || !failed().is_empty()).await.unwrap();
        assert_eq!(failed()[0].outcome, ReconcileOutcome::Terminal("terminal error: not here".to_owned()));
        let complaint = complaint(&env).expect("there was a failure");
        assert!(
            complaint.contains("on-hub ") && complaint.ends_with("failed for good: not here"),
            "{complaint}"
        );
    });
}

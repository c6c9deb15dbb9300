//! Ends that overlap, are dropped half-way, or fail.

use std::sync::Arc;
use std::time::Duration;

use bowline_runtime::{Action, Context, Error, Manager, Patch, Result};
use bowline_testing::{FinishError, TestEnv, Verb};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::json;

use crate::website::{create_map, maps};

const SECOND: Duration = Duration::from_secs(1);

/// Labels every config map.
async fn label(ctx: Context, map: Arc<ConfigMap>) -> Result<Action> {
    let patch = Patch::merge(&json!({"metadata": {"labels": {"seen": "yes"}}}))?;
    ctx.client().patch::<ConfigMap>(&bowline_cache::object_key(&*map), &patch).await.map_err(Error::from)?;
    Ok(Action::done())
}

fn operator(manager: &Manager) -> Result<()> {
    manager.controller::<ConfigMap>().writes::<ConfigMap>([bowline_runtime::Verb::Patch]).register(label)?;
    Ok(())
}

async fn is_labelled(env: &TestEnv) -> bool {
    maps(env).get("a").await.expect("an answer").labels().contains_key("seen")
}

/// Starts the operator, with its first patch at a gate before the server does it.
async fn start_held(env: &TestEnv) -> bowline_testing::faults::Gate {
    let held = env.faults().expect("the embedded arm").on(Verb::Patch).kind("ConfigMap").hold();
    env.start(operator).await.expect("it starts");
    create_map(env, "a", "1").await;
    held.wait_reached().await;
    held
}

#[test]
fn a_crash_during_a_stop_kills_what_the_stop_waits_for() {
    TestEnv::builder().test(async |env| {
        let held = start_held(&env).await;
        let crash = async {
            env.clock().sleep(SECOND).await;
            env.crash().await.unwrap();
            held.release();
            env.clock().now()
        };
        let stop = async {
            env.stop().await.unwrap();
            env.clock().now()
        };
        let (crashed, stopped) = tokio::join!(crash, stop);
        assert_eq!(crashed, stopped);
        env.clock().sleep(SECOND).await;
        assert!(!is_labelled(&env).await);
        let error = env.start_manager().await.unwrap_err().to_string();
        assert!(error.starts_with("run 1 of the operator has crashed"), "{error}");
        env.assert_no_failures();
    });
}

#[test]
fn a_crash_after_a_stop_that_was_dropped_kills_the_operator() {
    TestEnv::builder().test(async |env| {
        let held = start_held(&env).await;
        assert!(env.clock().timeout(SECOND, env.stop()).await.is_err());
        env.crash().await.unwrap();
        held.release();
        env.clock().sleep(SECOND).await;
        assert!(!is_labelled(&env).await);
    });
}

#[test]
fn a_stop_continues_one_that_was_dropped() {
    TestEnv::builder().test(async |env| {
        let held = start_held(&env).await;
        assert!(env.clock().timeout(SECOND, env.stop()).await.is_err());
        let release = async {
            env.clock().sleep(SECOND).await;
            held.release();
        };
        let stop = async {
            env.stop().await.unwrap();
            assert!(is_labelled(&env).await);
        };
        tokio::join!(release, stop);
        assert!(!env.manager().controllers().iter().any(bowline_runtime::Controller::is_running));
    });
}

#[test]
fn a_run_begins_only_when_the_run_before_it_has_ended() {
    TestEnv::builder().test(async |env| {
        let held = start_held(&env).await;
        let began = env.clock().now();
        let release = async {
            env.clock().sleep(SECOND).await;
            held.release();
        };
        let restart = async {
            env.restart().await.unwrap();
            env.clock().now().duration_since(began)
        };
        let (stopped, took, ()) = tokio::join!(env.stop(), restart, release);
        stopped.unwrap();
        assert!(took >= SECOND, "{took:?}");

        // The same if another operator is started.
        let held = env.faults().unwrap().on(Verb::Patch).kind("ConfigMap").hold();
        create_map(&env, "b", "1").await;
        held.wait_reached().await;
        let began = env.clock().now();
        assert!(env.clock().timeout(SECOND, env.stop()).await.is_err());
        let release = async {
            env.clock().sleep(SECOND).await;
            held.release();
        };
        let (started, ()) = tokio::join!(env.start(operator), release);
        started.unwrap();
        assert!(env.clock().now().duration_since(began) >= 2 * SECOND);
        assert_eq!(env.manager().controllers().len(), 1);
    });
}

#[test]
fn two_restarts_at_once_leave_one_run() {
    TestEnv::builder().test(async |env| {
        env.start(operator).await.unwrap();
        let first = env.manager().controllers();
        let (one, two) = tokio::join!(env.restart(), env.restart());
        assert!(one.is_ok() || two.is_ok());
        assert!(!first.iter().any(bowline_runtime::Controller::is_running));
        create_map(&env, "a", "1").await;
        env.wait_for::<ConfigMap>("a", |map| map.labels().contains_key("seen")).await.unwrap();
    });
}

#[test]
fn an_environment_ends_although_a_gate_was_not_released() {
    TestEnv::builder().test(async |env| {
        let held = start_held(&env).await;
        let began = env.clock().now();
        env.finish().await.unwrap();
        assert!(env.clock().now().duration_since(began) < SECOND);
        assert_eq!(held.waiting(), 0);
    });
}

#[test]
fn a_finish_continues_one_that_was_dropped() {
    TestEnv::builder().test(async |env| {
        let _task = env.spawner().spawn("stubborn", std::future::pending::<()>());
        env.start(operator).await.unwrap();
        assert!(env.clock().timeout(SECOND, env.finish()).await.is_err());
        // The clean-up of the server is still to be done.
        assert!(env.server().is_some());
        assert!(matches!(env.restart().await.unwrap_err(), bowline_testing::RunError::Finished));
        assert!(matches!(env.finish().await.unwrap_err(), FinishError::Tasks { .. }));
        assert!(env.server().is_none());
    });
}

#[test]
fn a_test_that_panics_drops_an_operator_that_holds_the_environment() {
    let witness = Arc::new(());
    let kept = Arc::downgrade(&witness);
    let test = std::panic::AssertUnwindSafe(move || {
        TestEnv::builder().test(async |env| {
            let held = env.clone();
            let operator = move |manager: &Manager| {
                let _held = (&held, &witness);
                operator(manager)
            };
            env.start(operator).await.unwrap();
            assert_eq!(env.namespace(), "", "the test fails");
        });
    });
    let panic = std::panic::catch_unwind(test).unwrap_err();
    assert!(panic.downcast_ref::<String>().unwrap().contains("the test fails"));
    assert!(kept.upgrade().is_none());
}

//! The end of an environment.

use std::time::Duration;

use bowline_clock::{Clock, Simulation};
use bowline_testing::{Arm, EnvError, TestEnv};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

/// Whether a namespace exists and is not being deleted.
async fn stays(client: &kube::Client, name: &str) -> bool {
    let namespace = Api::<Namespace>::all(client.clone()).get_opt(name).await.expect("an answer");
    namespace.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_none())
}

/// Whether other tests use the server too.
fn is_shared(env: &TestEnv) -> bool {
    env.namespace() != "test"
}

#[test]
#[should_panic(expected = "`test` makes its own simulation")]
fn a_whole_test_cannot_run_on_the_clock_of_another_simulation() {
    let clock = Simulation::new(1).run(|clock| async move { clock });
    TestEnv::builder().clock(clock).test(async |_| ());
}

#[test]
fn every_environment_has_a_namespace_of_its_own() {
    TestEnv::test(async |env| {
        assert!(stays(env.kube_client(), env.namespace()).await);
        if !is_shared(&env) {
            // Each has a server of its own.
            return;
        }
        let other = TestEnv::from_env().await.unwrap();
        assert_ne!(env.namespace(), other.namespace());
        assert!(stays(env.kube_client(), other.namespace()).await);
    });
}

#[test]
fn the_namespace_goes_when_the_test_is_over_or_drops_its_environment() {
    TestEnv::test(async |env| {
        if !is_shared(&env) {
            // The whole server goes.
            return;
        }
        let (finished, dropped) = (TestEnv::from_env().await.unwrap(), TestEnv::from_env().await.unwrap());
        let names = [finished.namespace().to_owned(), dropped.namespace().to_owned()];
        finished.finish().await.unwrap();
        drop(dropped);
        for name in names {
            assert!(!stays(env.kube_client(), &name).await, "{name} is still there");
        }
    });
}

#[test]
fn finishing_ends_what_runs_and_may_be_done_again() {
    TestEnv::test(async |env| {
        let token = env.spawner().cancellation();
        let task = env.spawner().spawn("task", async move { token.cancelled().await });
        env.finish().await.unwrap();
        task.await.unwrap();
        assert!(env.server().is_none());
        env.finish().await.unwrap();
    });
}

#[test]
fn a_task_that_does_not_end_is_named() {
    TestEnv::builder().test(async |env| {
        let _task = env.spawner().spawn("stubborn", std::future::pending::<()>());
        let start = env.clock().now();
        let left = env.finish().await.unwrap_err().to_string();
        assert_eq!(left, "these tasks did not end in time and were aborted: test/stubborn");
        assert_eq!(env.clock().now().duration_since(start), Duration::from_secs(10));
    });
}

#[tokio::test]
async fn an_environment_may_be_used_in_real_time() {
    let env = TestEnv::embedded().await.unwrap();
    assert!(!env.clock().is_simulated());
    assert!(stays(env.kube_client(), env.namespace()).await);
    env.finish().await.unwrap();
}

#[test]
fn faults_and_simulated_time_need_the_embedded_arm() {
    struct Nothing;
    impl bowline_apiserver::Hook for Nothing {}

    bowline_clock::Simulation::new(1).run(|clock: Clock| async move {
        let hook = TestEnv::builder().arm(Arm::Real).hook(Nothing).start().await.unwrap_err();
        assert!(matches!(hook, EnvError::Hook { arm: "real" }), "{hook}");
        let simulated = TestEnv::builder().arm(Arm::Existing).clock(clock).start().await.unwrap_err();
        assert!(matches!(simulated, EnvError::Simulated { arm: "existing" }), "{simulated}");
    });
}

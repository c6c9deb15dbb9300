//! Running an operator.

use std::sync::Arc;
use std::time::Duration;

use bowline_runtime::{Action, BuildError, Cluster, Context, Controller, Result};
use bowline_testing::{RunError, TestEnv};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::website::{Website, change_map, create_map};

async fn look(_: Context, _: Arc<ConfigMap>) -> Result<Action> {
    Ok(Action::done())
}

fn maps(cluster: &Cluster) -> Result<Controller, BuildError> {
    Controller::builder(cluster).for_::<ConfigMap>().build(look)
}

fn more_maps(cluster: &Cluster) -> Result<Controller, BuildError> {
    Controller::builder(cluster).for_::<ConfigMap>().named("more").build(look)
}

fn websites(cluster: &Cluster) -> Result<Controller, BuildError> {
    let look = async |_: Context, _: Arc<Website>| Ok::<_, std::io::Error>(Action::done());
    Controller::builder(cluster).for_::<Website>().build(look)
}

#[test]
fn an_operator_runs_until_the_environment_is_finished() {
    TestEnv::test(async |env| {
        let (first, second) = (maps(env.cluster()).unwrap(), more_maps(env.cluster()).unwrap());
        env.start(&[first.clone(), second.clone()]).await.unwrap();
        assert!(first.is_ready() && second.is_ready());
        create_map(&env, "a", "1").await;
        change_map(&env, "a", "2").await;
        let runs = || {
            let mut runs = env.cluster().journal().runs();
            runs.retain(|run| run.request.name() == "a");
            runs.iter().map(|run| run.controller.to_string()).collect::<Vec<_>>()
        };
        let both = async || runs().contains(&"configmap".to_owned()) && runs().contains(&"more".to_owned());
        env.wait_until("both have seen it", both).await.unwrap();
        env.finish().await.unwrap();
        assert!(!first.is_running() && !second.is_running());
    });
}

#[test]
fn an_operator_that_cannot_be_built_is_an_error() {
    TestEnv::test(async |env| {
        env.run(maps).await.unwrap();
        let error = env.run(maps).await.unwrap_err();
        assert!(matches!(error, RunError::Build(_)), "{error}");
    });
}

#[test]
fn a_controller_that_sees_nothing_says_what_it_waits_for() {
    TestEnv::builder().test(async |env| {
        let error = env.within(Duration::from_secs(3)).run(websites).await.unwrap_err();
        insta::assert_snapshot!(error, @"controller website is not ready after 3s: it waits for websites.demo.example.com/v1 in namespace test (waiting to try again: 404 page not found (404 Not Found))");
    });
}

//! The fault kit of an environment.

use std::sync::Arc;

use bowline_apiserver::{ApiServer, ServeOptions};
use bowline_cache::ListQuery;
use bowline_runtime::{Action, Context, Error, Manager, Patch, Result};
use bowline_testing::{Arm, EnvError, TestEnv, Verb};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::json;
use tokio::net::TcpListener;

use crate::website::create_map;

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

#[test]
fn an_operator_gets_over_faults_and_the_record_has_them() {
    TestEnv::builder().test(async |env| {
        let faults = env.faults().unwrap();
        let conflict = faults.on(Verb::Patch).kind("ConfigMap").name("a").times(2).conflict();
        let lost = faults.on(Verb::Patch).kind("ConfigMap").name("a").times(1).lose_response();
        env.start(operator).await.unwrap();
        create_map(&env, "a", "1").await;
        env.wait_for::<ConfigMap>("a", |map| map.labels().contains_key("seen")).await.unwrap();
        env.wait_until("it was patched again", async || faults.requests().verb(Verb::Patch).count() >= 4)
            .await
            .unwrap();
        conflict.assert_used();
        lost.assert_used();
        let patches = faults.requests().verb(Verb::Patch).name("a").list();
        let outcomes: Vec<_> = patches.iter().map(|it| (it.code(), it.faults.join(" "))).collect();
        let expected = [(Some(409), "conflict"), (Some(409), "conflict"), (None, "cut"), (Some(200), "")];
        assert_eq!(outcomes, expected.map(|(code, faults)| (code, faults.to_owned())), "{patches}");
    });
}

#[test]
fn a_cut_watch_is_opened_again_and_nothing_is_missed() {
    TestEnv::builder().test(async |env| {
        let faults = env.faults().unwrap();
        env.start(operator).await.unwrap();
        let away = faults.on([Verb::List, Verb::Watch]).resource("configmaps").lose_request();
        assert_eq!(faults.watches().resource("configmaps").cut(), 1);
        create_map(&env, "a", "1").await;
        env.clock().sleep(std::time::Duration::from_secs(5)).await;
        assert_eq!(faults.requests().verb(Verb::Patch).count(), 0);
        away.remove();
        away.assert_used();
        env.within(std::time::Duration::from_secs(60))
            .wait_for::<ConfigMap>("a", |map| map.labels().contains_key("seen"))
            .await
            .unwrap();
    });
}

#[test]
fn a_rule_for_the_operators_user_leaves_the_test_alone() {
    TestEnv::builder().test(async |env| {
        let faults = env.faults().unwrap();
        let away = faults.all().user(env.operator_user()).lose_request();
        let operator = |manager: &Manager| {
            manager.reads::<ConfigMap>();
            Ok::<_, Error>(())
        };
        env.start(operator).await.unwrap();
        create_map(&env, "a", "1").await;
        env.wait_for::<ConfigMap>("a", |_| true).await.unwrap();
        assert_eq!(away.matched(), 0);
        env.manager().client().live().list::<ConfigMap>(&ListQuery::new()).await.unwrap_err();
        away.assert_used();
    });
}

#[tokio::test]
async fn other_arms_have_no_faults_and_say_so() {
    let server = ApiServer::builder().build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let serving = server.serve(listener, ServeOptions::default()).unwrap();
    let kubeconfig = serving.kubeconfig().write_temporary("bowline-testing").unwrap();
    let env = TestEnv::builder().arm(Arm::Existing).kubeconfig(kubeconfig.path()).context("bowline");
    let env = env.start().await.unwrap();
    let error = env.faults().unwrap_err();
    assert!(matches!(error, EnvError::Faults { arm: "existing" }));
    assert_eq!(
        error.to_string(),
        "faults are not available on the arm existing: only the embedded server has a fault kit; run this test on the arm \
         embedded"
    );
    env.finish().await.unwrap();
}

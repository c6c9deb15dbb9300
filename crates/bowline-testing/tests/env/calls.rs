//! The operator's user, and the record of its calls.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bowline_apiserver::{Hook, HookFuture, RequestInfo, Verdict};
use bowline_runtime::{Action, Context, Manager, Patch, Result, Verb};
use bowline_testing::{Arm, RequestAttributes, TestEnv};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::website::create_map;

/// Labels config maps whose name begins with `ours`.
async fn label(ctx: Context, map: Arc<ConfigMap>) -> Result<Action> {
    if map.name_any().starts_with("ours") {
        let patch = Patch::merge(&json!({"metadata": {"labels": {"seen": "yes"}}}))?;
        ctx.client().patch::<ConfigMap>(&bowline_cache::object_key(&*map), &patch).await?;
    }
    Ok(Action::done())
}

fn operator(manager: &Manager) -> Result<()> {
    manager.controller::<ConfigMap>().writes::<ConfigMap>([Verb::Patch]).register(label)?;
    Ok(())
}

async fn run(env: &TestEnv, name: &str) {
    create_map(env, name, "1").await;
    env.wait_for::<ConfigMap>(name, |map| map.labels().contains_key("seen")).await.expect("it is labelled");
}

#[test]
fn the_operators_calls_of_all_runs_are_recorded_and_those_of_the_test_are_not() {
    TestEnv::test(async |env| {
        env.start(operator).await.unwrap();
        run(&env, "ours-1").await;
        env.crash().await.unwrap();
        env.restart().await.unwrap();
        run(&env, "ours-2").await;

        let namespace = env.namespace();
        let calls = env.calls();
        let all: Vec<_> = calls.iter().map(|(call, _)| call.to_string()).collect();
        for expected in [
            format!("watch configmaps in {namespace}"),
            format!("patch configmaps {namespace}/ours-1"),
            format!("patch configmaps {namespace}/ours-2"),
        ] {
            assert!(all.contains(&expected), "{expected} is not in {all:?}");
        }
        let is_foreign = |call: &RequestAttributes| {
            call.verb == "create" || call.resource == "serviceaccounts" || call.resource == "namespaces"
        };
        assert!(!calls.iter().any(|(call, _)| is_foreign(call)), "{all:?}");
        let watches = calls.iter().find(|(call, _)| call.verb == "watch").expect("a watch").1;
        assert!(watches >= 2, "each run watches: {watches}");
        assert_eq!(calls.missed(), 0);
    });
}

/// Records the users that request config maps.
#[derive(Clone, Default)]
struct Users(Arc<Mutex<BTreeSet<(String, &'static str)>>>);

impl Hook for Users {
    fn before_request<'a>(&'a self, call: &'a RequestInfo) -> HookFuture<'a, Verdict> {
        if call.resource == "configmaps" {
            self.0.lock().expect("no test panicked").insert((call.user.clone(), call.verb.as_str()));
        }
        Box::pin(std::future::ready(Verdict::Proceed))
    }
}

#[test]
fn the_operator_is_another_user_than_the_test_on_the_embedded_server() {
    let users = Users::default();
    TestEnv::builder().hook(users.clone()).test(async |env| {
        env.start(operator).await.unwrap();
        run(&env, "ours").await;
        let operator = "system:serviceaccount:test:operator".to_owned();
        let seen = users.0.lock().unwrap().clone();
        let of = |verb| seen.iter().filter(|(_, v)| *v == verb).map(|(user, _)| user).collect::<Vec<_>>();
        assert_eq!(of("patch"), [&operator]);
        assert_eq!(of("create"), ["admin"]);
        assert_eq!(of("watch"), ["admin", &operator]);
    });
}

#[test]
fn the_operator_is_a_service_account_on_a_real_server() {
    TestEnv::test(async |env| {
        if env.arm() != Arm::Real {
            return;
        }
        let name = async |client: &kube::Client| {
            let reviews = Api::<SelfSubjectReview>::all(client.clone());
            let answer = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
            answer.status.and_then(|status| status.user_info).and_then(|user| user.username).unwrap()
        };
        let operator = name(env.cluster().kube_client()).await;
        assert_eq!(operator, format!("system:serviceaccount:{}:operator", env.namespace()));
        assert_ne!(name(env.kube_client()).await, operator);
    });
}

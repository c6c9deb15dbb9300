//! The comparison of an operator's requests with its permissions.

use std::sync::Arc;

use bowline_runtime::{Action, Context, Manager, Permission, Result, Verb};
use bowline_testing::{FinishError, TestEnv};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use crate::website::create_map;

/// Creates and deletes a secret for each config map.
async fn reconcile(ctx: Context, map: Arc<ConfigMap>) -> Result<Action> {
    let mut secret = Secret::default();
    secret.metadata.name.clone_from(&map.metadata.name);
    secret.metadata.namespace.clone_from(&map.metadata.namespace);
    let secret = ctx.client().create(&secret).await?;
    ctx.client().delete_object(&secret).await?;
    Ok(Action::done())
}

fn without_permissions(manager: &Manager) -> Result<()> {
    manager.controller::<ConfigMap>().register(reconcile)?;
    Ok(())
}

fn with_permissions(manager: &Manager) -> Result<()> {
    let controller = manager.controller::<ConfigMap>().writes::<Secret>([Verb::Create, Verb::Delete]);
    controller
        .permits(Permission::to::<Secret>([Verb::Get, Verb::Patch]).named(["x"]))
        .register(reconcile)?;
    Ok(())
}

async fn run(env: &TestEnv, name: &str) {
    create_map(env, name, "1").await;
    let done = async || env.history().runs().iter().any(|record| record.request.name() == name);
    env.wait_until("the config map is reconciled", done).await.expect("it is reconciled");
}

#[test]
fn a_request_without_a_permission_fails_the_test_and_names_the_line_to_add() {
    TestEnv::builder().verify_permissions(false).test(async |env| {
        env.start(without_permissions).await.unwrap();
        run(&env, "a").await;
        run(&env, "b").await;
        let namespace = env.namespace();
        assert_eq!(
            env.missing_permissions().to_string(),
            format!(
                "create secrets in {namespace} and 2 more: add '.writes::<Secret>([Verb::Create, Verb::Delete])' to a \
                 controller"
            )
        );
    });
    TestEnv::builder().verify_permissions(true).test(async |env| {
        env.start(without_permissions).await.unwrap();
        run(&env, "a").await;
        let error = env.finish().await.unwrap_err();
        assert!(
            matches!(&error, FinishError::Permissions(missing) if missing.iter().count() == 1),
            "{error}"
        );
        assert!(error.to_string().contains("a cluster would refuse:\ncreate secrets in "), "{error}");
    });
}

#[test]
fn declared_permissions_allow_requests_and_unused_ones_are_listed() {
    TestEnv::test(async |env| {
        env.start(with_permissions).await.unwrap();
        run(&env, "a").await;
        assert!(env.missing_permissions().is_empty(), "{}", env.missing_permissions());
        let unused: Vec<_> = env.unused_permissions().iter().map(ToString::to_string).collect();
        assert_eq!(unused, ["get, patch secrets (x)"]);
    });
}

#[test]
fn permissions_of_earlier_runs_count() {
    TestEnv::test(async |env| {
        env.start(with_permissions).await.unwrap();
        run(&env, "a").await;
        env.crash().await.unwrap();
        assert!(env.missing_permissions().is_empty(), "after a crash");
        // The next run's operator is another function.
        env.start(|_: &Manager| Ok::<_, bowline_runtime::Error>(())).await.unwrap();
        assert!(env.missing_permissions().is_empty(), "in the next run: {}", env.missing_permissions());
    });
}

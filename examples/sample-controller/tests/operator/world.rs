//! Actions and checks of the tests.

use bowline::prelude::*;
use bowline::runtime::{ReconcileOutcome, ReconcileRecord};
use bowline_testing::TestEnv;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::events::v1::Event;
use sample_controller::{Foo, FooSpec, operator};
use serde_json::json;

/// A Foo whose Deployment has the same name.
pub(crate) fn foo(name: &str, replicas: Option<i32>) -> Foo {
    Foo::new(name, FooSpec { deployment_name: name.to_owned(), replicas })
}

/// Starts the operator.
pub(crate) async fn start(env: &TestEnv) -> Result<()> {
    env.install::<Foo>().await?.start(operator).await?;
    Ok(())
}

/// Creates a Foo, and waits for its Deployment.
pub(crate) async fn create(env: &TestEnv, name: &str, replicas: Option<i32>) -> Result<Arc<Deployment>> {
    env.client().create(&foo(name, replicas)).await?;
    Ok(env.wait_for::<Deployment>(name, |_| true).await?)
}

pub(crate) fn key(env: &TestEnv, name: &str) -> ObjectKey {
    ObjectKey::new(env.namespace(), name)
}

pub(crate) async fn scale_foo(env: &TestEnv, name: &str, replicas: Option<i32>) -> Result<Foo> {
    let patch = Patch::merge(&json!({"spec": {"replicas": replicas}}))?;
    Ok(env.client().patch(&key(env, name), &patch).await?)
}

pub(crate) async fn scale_deployment(env: &TestEnv, name: &str, replicas: i32) -> Result<Deployment> {
    let patch = Patch::merge(&json!({"spec": {"replicas": replicas}}))?;
    Ok(env.client().patch(&key(env, name), &patch).await?)
}

/// The status that a Deployment controller would write.
pub(crate) async fn make_available(env: &TestEnv, name: &str, replicas: i32) -> Result<()> {
    let status = json!({
        "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
    });
    let patch = Patch::merge(&json!({"status": status}))?;
    env.client().status().patch::<Deployment>(&key(env, name), &patch).await?;
    Ok(())
}

pub(crate) fn replicas(deployment: &Deployment) -> Option<i32> {
    deployment.spec.as_ref().and_then(|spec| spec.replicas)
}

/// The reconciles of a Foo, oldest first.
pub(crate) fn runs(env: &TestEnv, name: &str) -> Vec<ReconcileRecord> {
    let mut runs = env.cluster().history().runs();
    runs.retain(|run| run.request.name() == name);
    runs
}

/// Waits until a Foo was reconciled, without a failure, because of something.
pub(crate) async fn wait_for_run(env: &TestEnv, name: &str, trigger: &str) -> Result<()> {
    let is_it = |run: &ReconcileRecord| {
        matches!(run.outcome, ReconcileOutcome::Done | ReconcileOutcome::Gone)
            && run.triggers.iter().any(|one| one.to_string() == trigger)
    };
    let what = format!("{name} was reconciled because of {trigger}");
    Ok(env.wait_until(&what, async || runs(env, name).iter().any(is_it)).await?)
}

/// Waits until there is an event about a Foo, and returns its note.
pub(crate) async fn wait_for_event(env: &TestEnv, name: &str, type_: &str, reason: &str) -> Result<String> {
    let is_it =
        |event: &Event| {
            event.regarding.as_ref().is_some_and(|about| {
                about.kind.as_deref() == Some("Foo") && about.name.as_deref() == Some(name)
            }) && event.type_.as_deref() == Some(type_)
                && event.reason.as_deref() == Some(reason)
        };
    let what = format!("an event {type_} {reason} about {name}");
    let events = env.wait_for_all::<Event>(&what, |events| events.iter().any(|event| is_it(event))).await?;
    let event = events.iter().find(|event| is_it(event));
    Ok(event.and_then(|event| event.note.clone()).unwrap_or_default())
}

//! Failures of the operator, and how they are reported.

use bowline::prelude::*;
use bowline::runtime::ReconcileOutcome;
use bowline_testing::TestEnv;
use k8s_openapi::api::apps::v1::Deployment;
use sample_controller::{Foo, FooSpec};
use serde_json::json;

use crate::world::{foo, key, runs, start, wait_for_event};

#[test]
fn a_deployment_of_somebody_else_is_never_touched() -> Result<()> {
    TestEnv::test(async |env| {
        start(&env).await?;
        let labels = json!({"app": "theirs"});
        let theirs: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 4,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "theirs", "image": "theirs"}]},
                },
            },
        }))?;
        let theirs = env.client().create(&theirs).await?;
        env.client().create(&foo("web", Some(1))).await?;

        let note = wait_for_event(&env, "web", "Warning", "ErrResourceExists").await?;
        assert_eq!(note, r#"Resource "web" already exists and is not managed by Foo"#);
        env.wait_until("it was tried several times", async || runs(&env, "web").len() >= 4).await?;
        assert!(runs(&env, "web").iter().all(|run| run.outcome == ReconcileOutcome::Failed(note.clone())));
        let there = env.client().get::<Deployment>(&key(&env, "web")).await?;
        assert_eq!((&there.spec, &there.metadata.labels), (&theirs.spec, &theirs.metadata.labels));
        assert_eq!(there.owner_references(), []);

        // Nothing tells that theirs has gone, but trying again finds out.
        env.client().delete_object(&theirs).await?;
        let ours =
            env.wait_for::<Deployment>("web", |deployment| deployment.metadata.uid != theirs.metadata.uid);
        assert_eq!(ours.await?.owner_references()[0].kind, "Foo");
        Ok(())
    })
}

#[test]
fn an_empty_deployment_name_is_reported_and_not_tried_again() -> Result<()> {
    TestEnv::test(async |env| {
        start(&env).await?;
        let spec = FooSpec { deployment_name: String::new(), replicas: Some(1) };
        env.client().create(&Foo::new("web", spec)).await?;
        let note = wait_for_event(&env, "web", "Warning", "ErrDeploymentName").await?;
        assert_eq!(note, "deploymentName must be set");

        // Twenty seconds of trying would be twelve tries.
        if env.clock().is_simulated() {
            env.clock().sleep(Duration::from_secs(20)).await;
        }
        let outcomes: Vec<_> = runs(&env, "web").into_iter().map(|run| run.outcome).collect();
        assert_eq!(
            outcomes,
            [ReconcileOutcome::Terminal("terminal error: deploymentName must be set".to_owned())]
        );

        // A correction triggers a reconcile.
        let patch = Patch::merge(&json!({"spec": {"deploymentName": "web"}}))?;
        env.client().patch::<Foo>(&key(&env, "web"), &patch).await?;
        env.wait_for::<Deployment>("web", |_| true).await?;
        Ok(())
    })
}

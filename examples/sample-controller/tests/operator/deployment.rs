//! A Foo and its Deployment.

use bowline::prelude::*;
use bowline_testing::TestEnv;
use k8s_openapi::api::apps::v1::Deployment;
use sample_controller::Foo;
use serde_json::{Value, json};

use crate::world::{create, foo, key, replicas, scale_deployment, scale_foo, start, wait_for_run};

#[test]
fn a_deployment_that_is_missing_is_created() -> Result<()> {
    TestEnv::test(async |env| {
        start(&env).await?;
        let foo = env.client().create(&foo("web", Some(2))).await?;
        let deployment = env.wait_for::<Deployment>("web", |_| true).await?;

        let Value::Object(spec) = serde_json::to_value(&deployment.spec)? else { panic!("there is none") };
        let labels = json!({"app": "nginx", "controller": "web"});
        assert_eq!(spec["replicas"], 2);
        assert_eq!(spec["selector"], json!({"matchLabels": labels}));
        assert_eq!(spec["template"]["metadata"]["labels"], labels);
        let [container] = &deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap().containers[..]
        else {
            panic!("one container: {spec:?}")
        };
        assert_eq!((container.name.as_str(), container.image.as_deref()), ("nginx", Some("nginx:latest")));
        let [owner] = deployment.owner_references() else { panic!("one owner: {deployment:?}") };
        assert_eq!(
            (owner.api_version.as_str(), owner.kind.as_str(), owner.name.as_str()),
            ("samplecontroller.k8s.io/v1alpha1", "Foo", "web")
        );
        assert_eq!((Some(&owner.uid), owner.controller), (foo.metadata.uid.as_ref(), Some(true)));
        wait_for_run(&env, "web", "Foo created").await?;
        env.assert_no_failures();
        Ok(())
    })
}

#[test]
fn a_deployment_is_scaled_when_replicas_are_set_and_differ() -> Result<()> {
    TestEnv::test(async |env| {
        start(&env).await?;
        let created = create(&env, "web", Some(1)).await?;
        scale_foo(&env, "web", Some(3)).await?;
        let scaled = env.wait_for::<Deployment>("web", |deployment| replicas(deployment) == Some(3)).await?;
        assert_eq!(scaled.metadata.uid, created.metadata.uid, "it is still the same");

        // A user scales it, and it is scaled back.
        scale_deployment(&env, "web", 7).await?;
        let change = format!("Deployment {}/web updated", env.namespace());
        wait_for_run(&env, "web", &change).await?;
        env.wait_for::<Deployment>("web", |deployment| replicas(deployment) == Some(3)).await?;
        Ok(())
    })
}

#[test]
fn a_deployment_is_left_alone_when_replicas_are_unset() -> Result<()> {
    TestEnv::test(async |env| {
        start(&env).await?;
        let deployment = create(&env, "web", None).await?;
        assert_eq!(replicas(&deployment), Some(1), "what Kubernetes makes of none");

        let scaled = scale_deployment(&env, "web", 5).await?;
        let change = format!("Deployment {}/web updated", env.namespace());
        wait_for_run(&env, "web", &change).await?;
        let deployment = env.client().get::<Deployment>(&key(&env, "web")).await?;
        assert_eq!(deployment.metadata.generation, scaled.metadata.generation);
        assert_eq!(replicas(&deployment), Some(5));
        env.assert_no_failures();
        Ok(())
    })
}

#[test]
fn a_deployment_that_is_deleted_comes_back() -> Result<()> {
    TestEnv::test(async |env| {
        start(&env).await?;
        let first = create(&env, "web", Some(2)).await?;
        env.client().delete_object(&first).await?;
        let second = env
            .wait_for::<Deployment>("web", |deployment| deployment.metadata.uid != first.metadata.uid)
            .await?;
        assert_eq!(replicas(&second), Some(2));
        let why = format!("Deployment {}/web deleted", env.namespace());
        wait_for_run(&env, "web", &why).await?;
        env.assert_no_failures();
        Ok(())
    })
}

#[test]
fn a_foo_that_is_gone_ends_its_work() -> Result<()> {
    TestEnv::test(async |env| {
        start(&env).await?;
        create(&env, "web", Some(1)).await?;
        wait_for_run(&env, "web", "Foo created").await?;
        env.client().delete::<Foo>(&key(&env, "web")).await?;
        wait_for_run(&env, "web", "Foo deleted").await?;

        // It is not recreated.
        env.client().delete::<Deployment>(&key(&env, "web")).await.ignore_not_found()?;
        let change = format!("Deployment {}/web deleted", env.namespace());
        wait_for_run(&env, "web", &change).await?;
        assert!(env.client().find::<Deployment>(&key(&env, "web")).await?.is_none());
        env.assert_no_failures();
        Ok(())
    })
}

#[test]
fn a_foo_that_is_on_its_way_out_gets_nothing_back() -> Result<()> {
    TestEnv::test(async |env| {
        start(&env).await?;
        let mut foo = foo("web", Some(1));
        foo.metadata.finalizers = Some(vec!["example.com/wait".to_owned()]);
        env.client().create(&foo).await?;
        env.wait_for::<Deployment>("web", |_| true).await?;
        env.client().delete::<Foo>(&key(&env, "web")).await?;
        env.wait_for::<Foo>("web", |foo| foo.metadata.deletion_timestamp.is_some()).await?;

        env.client().delete::<Deployment>(&key(&env, "web")).await?;
        wait_for_run(&env, "web", &format!("Deployment {}/web deleted", env.namespace())).await?;
        assert!(env.client().find::<Deployment>(&key(&env, "web")).await?.is_none());
        let patch = Patch::merge(&json!({"metadata": {"finalizers": null}}))?;
        env.client().patch::<Foo>(&key(&env, "web"), &patch).await?;
        Ok(())
    })
}

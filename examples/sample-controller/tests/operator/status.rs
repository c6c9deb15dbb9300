//! The status of a Foo.

use bowline::prelude::*;
use bowline_testing::{TestEnv, Verb};
use sample_controller::{Foo, FooStatus};

use crate::world::{create, key, make_available, scale_deployment, start, wait_for_run};

#[test]
fn available_replicas_are_written_from_the_deployment() -> Result<()> {
    TestEnv::test(async |env| {
        start(&env).await?;
        create(&env, "web", Some(3)).await?;
        let says = |replicas| move |foo: &Foo| foo.status == Some(FooStatus { available_replicas: replicas });
        env.wait_for::<Foo>("web", says(0)).await?;
        make_available(&env, "web", 2).await?;
        env.wait_for::<Foo>("web", says(2)).await?;
        make_available(&env, "web", 3).await?;
        let foo = env.wait_for::<Foo>("web", says(3)).await?;
        assert_eq!(foo.metadata.generation, Some(1), "only its status was written");
        env.assert_no_failures();
        Ok(())
    })
}

#[test]
fn the_status_is_written_through_its_subresource_and_only_when_it_differs() -> Result<()> {
    TestEnv::builder().test(async |env| {
        let faults = env.faults()?;
        let writes = || {
            let requests = faults.requests().verb([Verb::Update, Verb::Patch]).resource("foos").take();
            requests.into_iter().map(|request| request.info.subresource).collect::<Vec<_>>()
        };
        start(&env).await?;
        create(&env, "web", None).await?;
        make_available(&env, "web", 1).await?;
        let one = |foo: &Foo| foo.status == Some(FooStatus { available_replicas: 1 });
        env.wait_for::<Foo>("web", one).await?;
        let status = || Some("status".to_owned());
        assert_eq!(writes(), [status(), status()], "none available, then one");

        // The Deployment changes, but not in what the status says.
        scale_deployment(&env, "web", 5).await?;
        env.clock().sleep(Duration::from_secs(1)).await;
        let change = format!("Deployment {}/web updated", env.namespace());
        wait_for_run(&env, "web", &change).await?;
        env.clock().sleep(Duration::from_secs(300)).await;
        assert_eq!(writes(), []);
        assert_eq!(env.client().get::<Foo>(&key(&env, "web")).await?.metadata.generation, Some(1));
        Ok(())
    })
}

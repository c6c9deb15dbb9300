//! Changes while the watch is cut off.

use bowline::prelude::*;
use bowline_testing::{TestEnv, Verb};
use k8s_openapi::api::apps::v1::Deployment;

use crate::world::{create, runs, start, wait_for_run};

#[test]
fn a_deployment_comes_back_although_its_deletion_was_missed() -> Result<()> {
    TestEnv::builder().test(async |env| {
        start(&env).await?;
        let first = create(&env, "web", Some(2)).await?;
        wait_for_run(&env, "web", "Foo created").await?;
        env.clock().sleep(Duration::from_secs(1)).await;
        let before = runs(&env, "web").len();

        // Lists and watches of Deployments fail.
        let faults = env.faults()?;
        let outage = faults.on([Verb::List, Verb::Watch]).resource("deployments").lose_request();
        assert_eq!(faults.watches().resource("deployments").cut(), 1);
        env.client().delete_object(&first).await?;
        env.clock().sleep(Duration::from_secs(5)).await;
        // The server has no more events of that time: the reflector lists again, and finds that an object is missing.
        env.server().expect("it is embedded").compact();
        assert_eq!(runs(&env, "web").len(), before, "nobody knows yet");

        outage.remove();
        outage.assert_used();
        let other = |deployment: &Deployment| deployment.metadata.uid != first.metadata.uid;
        env.within(Duration::from_secs(60)).wait_for::<Deployment>("web", other).await?;
        let change = format!("Deployment {}/web deleted", env.namespace());
        wait_for_run(&env, "web", &change).await
    })
}

//! Looking again, although nothing happened; and how many Foos are worked on at once.

use bowline::prelude::*;
use bowline::runtime::Cause;
use bowline_apiserver::{Call, Hook, HookFuture, Verdict};
use bowline_testing::TestEnv;
use k8s_openapi::api::apps::v1::Deployment;
use sample_controller::{Foo, operator};
use tokio::sync::Semaphore;

use crate::world::{create, foo, key, runs, start};

#[test]
fn every_foo_is_looked_at_again_and_deployments_that_did_not_change_cause_nothing() -> Result<()> {
    TestEnv::test(async |env| {
        start(&env).await?;
        let created = create(&env, "web", Some(1)).await?;
        let resynced = || {
            let mut triggers: Vec<_> = runs(&env, "web")
                .iter()
                .flat_map(|run| run.triggers.iter().cloned().collect::<Vec<_>>())
                .collect();
            triggers.retain(|trigger| trigger.cause() == Cause::Resynced);
            triggers.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        // In real time once has to do.
        let times = if env.clock().is_simulated() { 4 } else { 1 };
        let env_with_time = env.within(Duration::from_secs(180));
        env_with_time.wait_until("the Foo was looked at again", async || resynced().len() >= times).await?;
        assert_eq!(resynced(), vec!["Foo resynced"; times]);
        let deployment = env.client().get::<Deployment>(&key(&env, "web")).await?;
        assert_eq!(deployment.metadata.resource_version, created.metadata.resource_version);
        Ok(())
    })
}

#[test]
fn two_foos_are_worked_on_at_once_and_no_third() -> Result<()> {
    let gate = Gate(Arc::new(Semaphore::new(0)));
    TestEnv::builder().hook(gate.clone()).test(async |env| {
        env.install::<Foo>().await?;
        let controller = operator(env.cluster())?;
        env.start(&controller).await?;
        for name in ["a", "b", "c"] {
            env.client().create(&foo(name, None)).await?;
        }
        let at_once = || controller.reconciling().len();
        env.wait_until("two are worked on", async || at_once() == 2).await?;
        env.clock().sleep(Duration::from_secs(5)).await;
        assert_eq!(at_once(), 2);
        gate.0.add_permits(3);
        for name in ["a", "b", "c"] {
            env.wait_for::<Deployment>(name, |_| true).await?;
        }
        Ok(())
    })
}

/// Lets Deployments be created when somebody opens it.
#[derive(Clone)]
struct Gate(Arc<Semaphore>);

impl Hook for Gate {
    fn before<'a>(&'a self, call: &'a Call) -> HookFuture<'a, Verdict> {
        Box::pin(async move {
            if call.resource == "deployments" && call.verb.as_str() == "create" {
                self.0.acquire().await.expect("nobody closes it").forget();
            }
            Verdict::Proceed
        })
    }
}

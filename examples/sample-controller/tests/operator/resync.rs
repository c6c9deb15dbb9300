//! Looking again, although nothing happened; and how many Foos are worked on at once.

use std::time::SystemTime;

use bowline::prelude::*;
use bowline::runtime::{Cause, ReconcileRecord, Trigger};
use bowline_testing::{TestEnv, Verb};
use k8s_openapi::api::apps::v1::Deployment;

use crate::world::{create, foo, key, runs, start};

#[test]
fn every_foo_is_looked_at_again_and_deployments_that_did_not_change_cause_nothing() -> Result<()> {
    TestEnv::test(async |env| {
        start(&env).await?;
        let created = create(&env, "web", Some(1)).await?;
        let resyncs = || -> Vec<(SystemTime, String)> {
            let is_resync = |trigger: &&Trigger| trigger.cause() == Cause::Resynced;
            let of_run = |run: ReconcileRecord| {
                let resyncs = run.triggers.iter().filter(is_resync).map(ToString::to_string);
                resyncs.map(|resync| (run.started, resync)).collect::<Vec<_>>()
            };
            runs(&env, "web").into_iter().flat_map(of_run).collect()
        };
        // In real time once has to do.
        let times = if env.clock().is_simulated() { 4 } else { 1 };
        let patient = env.within(Duration::from_secs(180));
        patient.wait_until("the Foo was looked at again", async || resyncs().len() >= times).await?;
        for (_, what) in resyncs() {
            assert_eq!(what, "Foo resynced");
        }
        for pair in resyncs().windows(2) {
            // Thirty seconds, give or take a tenth.
            let between = pair[1].0.duration_since(pair[0].0)?.as_secs();
            assert!((27..=33).contains(&between), "{between} s");
        }
        let deployment = env.client().get::<Deployment>(&key(&env, "web")).await?;
        assert_eq!(deployment.metadata.generation, created.metadata.generation);
        Ok(())
    })
}

#[test]
fn as_many_foos_are_worked_on_at_once_as_the_manager_says() -> Result<()> {
    const WORKERS: usize = 2;
    let env = TestEnv::builder().manager(|manager| manager.concurrency(WORKERS));
    env.test(async |env| {
        let gate = env.faults()?.on(Verb::Create).resource("deployments").hold();
        start(&env).await?;
        let [controller] = &env.manager().controllers()[..] else { panic!("there is one controller") };
        for name in ["a", "b", "c"] {
            env.client().create(&foo(name, None)).await?;
        }
        let at_once = || controller.reconciling().len();
        env.wait_until("two are worked on", async || at_once() == 2).await?;
        env.clock().sleep(Duration::from_secs(5)).await;
        assert_eq!(at_once(), 2);
        assert_eq!(gate.waiting(), 2);
        gate.release();
        for name in ["a", "b", "c"] {
            env.wait_for::<Deployment>(name, |_| true).await?;
        }
        Ok(())
    })
}

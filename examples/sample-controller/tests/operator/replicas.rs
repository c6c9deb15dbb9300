//! Two replicas of the program: only the leader acts.

use bowline::prelude::*;
use bowline_testing::TestEnv;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use sample_controller::Foo;

use crate::process::{Plane, Running};
use crate::world::foo;

/// How long anything may take; nothing does unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn when_the_leader_is_killed_the_other_replica_finishes_its_work() -> Result<()> {
    let env = TestEnv::from_env().await?.within(LIMIT);
    env.install::<Foo>().await?;
    let plane = Plane::of(&env).await?;
    let arguments = [
        ["--kubeconfig", plane.kubeconfig()],
        ["--namespace", env.namespace()],
        ["--leader-elect", "--health-probe-bind-address=0"],
        ["--leader-election-namespace", env.namespace()],
        ["--leader-election-lease-duration", "2s"],
        ["--leader-election-renew-deadline", "1.2s"],
        ["--leader-election-retry-period", "300ms"],
    ];
    let start = || Running::start(arguments.as_flattened());
    let mut replicas = vec![start(), start()];

    create_foos(&env, "first").await?;
    deployments(&env, "first").await?;
    let leads = replicas.iter().position(acts).expect("one of them made the Deployments");
    let (leader, other) = (replicas.remove(leads), replicas.remove(0));
    assert!(!acts(&other), "{}", other.logged());
    let first = holder(&env).await?;

    create_foos(&env, "second").await?;
    leader.kill();
    create_foos(&env, "third").await?;
    for group in ["first", "second", "third"] {
        deployments(&env, group).await?;
    }
    assert!(acts(&other), "{}", other.logged());
    let second = holder(&env).await?;
    assert!(first.is_some() && second.is_some() && first != second, "{first:?} {second:?}");

    // One that is asked to end gives the lease up.
    let logged = other.end("TERM");
    assert_eq!(holder(&env).await?.as_deref().unwrap_or_default(), "", "{logged}");
    env.finish().await?;
    Ok(())
}

/// Only the leader reconciles.
fn acts(replica: &Running) -> bool {
    let logged = replica.logged();
    assert_eq!(logged.contains("became the leader"), logged.contains("reconciled"), "{logged}");
    logged.contains("reconciled")
}

fn names(group: &str) -> impl Iterator<Item = String> {
    (0..10).map(move |number| format!("{group}-{number}"))
}

async fn create_foos(env: &TestEnv, group: &str) -> Result<()> {
    for name in names(group) {
        env.client().create(&foo(&name, Some(2))).await?;
    }
    Ok(())
}

/// Waits until all Foos of a group have what they need.
async fn deployments(env: &TestEnv, group: &str) -> Result<()> {
    for name in names(group) {
        let deployment = env.wait_for::<Deployment>(&name, |_| true).await?;
        assert_eq!(deployment.owner_references()[0].name, name);
        env.wait_for::<Foo>(&name, |foo| foo.status.is_some()).await?;
    }
    Ok(())
}

async fn holder(env: &TestEnv) -> Result<Option<String>> {
    let lease = env.client().get::<Lease>(&ObjectKey::new(env.namespace(), "sample-controller")).await?;
    Ok(lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()))
}

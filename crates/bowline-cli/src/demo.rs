//! `bowline demo`: sample-controller step by step, with the reconcile of each step and its triggers.

mod stage;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use bowline::prelude::*;
use bowline::runtime::{ClientError, PatchError};
use bowline_testing::{EnvError, FinishError, InstallError, RunError, TestEnv, WaitError};
use k8s_openapi::api::apps::v1::Deployment;
use sample_controller::{Foo, FooSpec, operator};
use serde_json::json;

use crate::arguments::Demo;
use stage::DemoOutput;

/// The Foo of the demo, and its Deployment.
const NAME: &str = "example";

/// Why the demo stopped before its end.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("cannot write to the standard output: {0}")]
    Output(#[from] io::Error),
    #[error(transparent)]
    Environment(#[from] EnvError),
    #[error(transparent)]
    Definition(#[from] InstallError),
    #[error(transparent)]
    Operator(Box<RunError>),
    #[error(transparent)]
    Request(#[from] ClientError),
    #[error(transparent)]
    Patch(#[from] PatchError),
    #[error("{0}")]
    Wait(#[from] WaitError),
    #[error("waited {limit:?} for a reconcile because of: {why}")]
    NoReconcile { why: String, limit: Duration },
    #[error("{0}")]
    Untrue(&'static str),
    #[error(transparent)]
    Finish(#[from] FinishError),
}

impl From<RunError> for DemoError {
    fn from(error: RunError) -> Self {
        Self::Operator(Box::new(error))
    }
}

/// Plays the demo. A closed pipe, as after `head`, is a success.
pub(crate) fn run(arguments: &Demo) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let played = match runtime {
        Ok(runtime) => runtime.block_on(Box::pin(play(Duration::from_secs(arguments.timeout)))),
        Err(error) => Err(error.into()),
    };
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(DemoError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            // If the standard error is closed, the exit code alone reports the failure.
            let _ = writeln!(io::stderr(), "error: the demo failed: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn play(timeout: Duration) -> Result<(), DemoError> {
    DemoOutput::title(
        "An operator and a Kubernetes API server in one process. No cluster, nothing to install.",
    )?;
    DemoOutput::step(1, "Start an API server, define the kind Foo, run sample-controller")?;
    let start = Clock::real().now();
    let env = TestEnv::builder().namespace("demo").timeout(timeout).start().await?;
    env.install::<Foo>().await?.start(operator).await?;
    DemoOutput::done(&format!("ready after {:.0?}", env.clock().now().duration_since(start)))?;

    let mut stage = DemoOutput::new(&env, timeout);
    create(&env, &mut stage).await?;
    scale(&env, &mut stage).await?;
    heal(&env, &mut stage).await?;
    delete(&env, &mut stage).await?;

    DemoOutput::title(
        "Not there yet: nothing makes the Deployment available (the Foo's status said 0 to the end), and nothing collects\n\
         it now that its owner is gone. In Kubernetes, other controllers do that.",
    )?;
    DemoOutput::title(
        "The whole operator: examples/sample-controller/src/foo.rs\n\
         To try it yourself:  cargo run -p sample-controller",
    )?;
    Ok(env.finish().await?)
}

async fn create(env: &TestEnv, stage: &mut DemoOutput<'_>) -> Result<(), DemoError> {
    stage.begin(2, "Create a Foo that asks for a Deployment with 1 replica").await?;
    let spec = FooSpec { deployment_name: NAME.to_owned(), replicas: Some(1) };
    env.client().create(&Foo::new(NAME, spec)).await?;
    stage.reconciled("Foo created").await?;
    let deployment = env.wait_for::<Deployment>(NAME, |_| true).await?;
    let owners = deployment.owner_references();
    if replicas(&deployment) != Some(1) || owners.iter().all(|owner| owner.name != NAME) {
        return Err(DemoError::Untrue("the Deployment is not what the Foo asked for"));
    }
    DemoOutput::done("its Deployment is there: 1 replica, owned by the Foo")
}

async fn scale(env: &TestEnv, stage: &mut DemoOutput<'_>) -> Result<(), DemoError> {
    stage.begin(3, "Scale the Foo to 3 replicas").await?;
    let patch = Patch::merge(&json!({"spec": {"replicas": 3}}))?;
    env.client().patch::<Foo>(&key(env), &patch).await?;
    stage.reconciled("Foo updated").await?;
    env.wait_for::<Deployment>(NAME, |deployment| replicas(deployment) == Some(3)).await?;
    DemoOutput::done("its Deployment has 3 replicas")
}

async fn heal(env: &TestEnv, stage: &mut DemoOutput<'_>) -> Result<(), DemoError> {
    stage.begin(4, "Delete the Deployment behind the operator's back").await?;
    let first = env.client().get::<Deployment>(&key(env)).await?;
    env.client().delete_object(&first).await?;
    stage.reconciled(&format!("Deployment {} deleted", key(env))).await?;
    let is_new = |deployment: &Deployment| deployment.metadata.uid != first.metadata.uid;
    env.wait_for::<Deployment>(NAME, |deployment| is_new(deployment) && replicas(deployment) == Some(3))
        .await?;
    DemoOutput::done("a new one is there: 3 replicas")
}

async fn delete(env: &TestEnv, stage: &mut DemoOutput<'_>) -> Result<(), DemoError> {
    stage.begin(5, "Delete the Foo").await?;
    let foo = env.client().get::<Foo>(&key(env)).await?;
    if foo.status.as_ref().is_none_or(|status| status.available_replicas != 0) {
        return Err(DemoError::Untrue("the Foo's status does not say that no replica is available"));
    }
    env.client().delete_object(&foo).await?;
    stage.reconciled("Foo deleted").await?;
    env.wait_until_gone::<Foo>(NAME).await?;
    if env.client().find::<Deployment>(&key(env)).await?.is_none() {
        return Err(DemoError::Untrue("the Deployment was deleted"));
    }
    DemoOutput::done("the Foo is gone, and there is nothing left for the operator to do")
}

fn key(env: &TestEnv) -> ObjectKey {
    ObjectKey::new(env.namespace(), NAME)
}

fn replicas(deployment: &Deployment) -> Option<i32> {
    deployment.spec.as_ref()?.replicas
}

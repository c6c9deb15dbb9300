//! One run of one informer, in this process: ours, or that of kube-rs. `peers/go` does the same work in Go.

use std::fs;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};

use bowline_clock::Scope;
use clap::Args;
use kube::Client;
use tokio::process::Command;

use super::{Resource, Task, bowline, kube_rs};
use crate::apiserver::client::Endpoint;
use crate::apiserver::load::Failure;
use crate::execution;
use crate::maker::Maker;
use crate::subject::Measured;

/// Arguments of a run. Arguments that a task does not need have a default.
#[derive(Args, Debug)]
pub(crate) struct InformerSubjectArguments {
    #[arg(long)]
    maker: Maker,
    #[arg(long)]
    task: Task,
    /// The file with the server's endpoint
    #[arg(long)]
    endpoint: PathBuf,
    /// This program with a counting allocator
    #[arg(long)]
    counting_program: Option<PathBuf>,
    #[arg(long, default_value = "pods")]
    resource: Resource,
    /// Drop managedFields on the way in
    #[arg(long)]
    strip: bool,
    /// Number of objects on the server
    #[arg(long)]
    n: usize,
    /// Number of updates that the server sends
    #[arg(long, default_value_t = 0)]
    updates: usize,
    /// Number of objects per group
    #[arg(long, default_value_t = 100)]
    group: usize,
    #[arg(long, default_value_t = 2)]
    readers: usize,
    /// Updates a second
    #[arg(long, default_value_t = 2_000)]
    rate: usize,
    /// Duration of reads
    #[arg(long, default_value_t = 3_000)]
    milliseconds: usize,
}

/// Work and server of a run.
pub(super) struct Run {
    pub(super) scope: Scope,
    pub(super) endpoint: Endpoint,
    /// Set in a program with a counting allocator.
    pub(super) allocated: Option<fn() -> usize>,
    pub(super) resource: Resource,
    pub(super) strip: bool,
    pub(super) n: usize,
    pub(super) updates: usize,
    pub(super) group: usize,
    pub(super) readers: usize,
    pub(super) rate: usize,
    pub(super) milliseconds: usize,
}

impl Run {
    /// A client of kube-rs with its defaults.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        Ok(Client::try_from(self.endpoint.config()?)?)
    }
}

/// Performs the run and prints its measurements, as one line of JSON.
pub(crate) fn main(arguments: InformerSubjectArguments, allocated: Option<fn() -> usize>) -> ExitCode {
    execution::measured(move |scope| run(scope, arguments, allocated))
}

async fn run(
    scope: Scope,
    arguments: InformerSubjectArguments,
    allocated: Option<fn() -> usize>,
) -> Result<Measured, Failure> {
    let run = Run {
        scope,
        endpoint: serde_json::from_slice(&fs::read(&arguments.endpoint)?)?,
        allocated,
        resource: arguments.resource,
        strip: arguments.strip,
        n: arguments.n,
        updates: arguments.updates,
        group: arguments.group,
        readers: arguments.readers,
        rate: arguments.rate,
        milliseconds: arguments.milliseconds,
    };
    let mut measured = match (arguments.maker, arguments.task) {
        (Maker::Bowline, Task::Sync) => bowline::sync(&run).await,
        (Maker::Bowline, Task::Events) => bowline::events(&run).await,
        (Maker::Bowline, Task::Get) => bowline::get(&run).await,
        (Maker::Bowline, Task::Index) => bowline::index(&run).await,
        (Maker::KubeRs, Task::Sync) => kube_rs::sync(&run).await,
        (Maker::KubeRs, Task::Events) => kube_rs::events(&run).await,
        (Maker::KubeRs, Task::Get) => kube_rs::get(&run).await,
        (Maker::KubeRs, Task::Index) => kube_rs::index(&run).await,
    }?;
    drop(run);
    if let Some(program) = arguments.counting_program.filter(|_| allocated.is_none()) {
        measured.extend(again(&program).await?);
    }
    Ok(measured)
}

/// Repeats the run in another program that measures something else.
async fn again(program: &PathBuf) -> Result<Measured, Failure> {
    let output = Command::new(program)
        .args(std::env::args_os().skip(1))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await?;
    if !output.status.success() {
        return Err(format!("{}: {}", program.display(), output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

//! One run of one controller, in this process: ours, or that of kube-rs. `peers/go` does the same work in Go.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use bowline_clock::{Clock, Scope};
use clap::Args;

use super::{Task, bowline, kube_rs};
use crate::apiserver::client::Endpoint;
use crate::apiserver::load::Failure;
use crate::execution;
use crate::maker::Maker;
use crate::sink::Logger;
use crate::subject::Measured;

/// Arguments of a run. Arguments that a task does not need have a default.
#[derive(Args, Debug)]
pub(crate) struct ReconcileSubjectArguments {
    #[arg(long)]
    maker: Maker,
    #[arg(long)]
    task: Task,
    /// The file with the server's endpoint
    #[arg(long)]
    endpoint: PathBuf,
    /// Logger
    #[arg(long)]
    logger: Logger,
    /// Number of objects on the server
    #[arg(long)]
    n: usize,
    /// Number of workers
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Number of further reconciles of each object
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Updates a second
    #[arg(long, default_value_t = 2_000)]
    rate: usize,
    /// Number of updates before the counted ones
    #[arg(long, default_value_t = 1_000)]
    warmup: usize,
    /// Number of counted updates
    #[arg(long, default_value_t = 10_000)]
    samples: usize,
}

/// Work and server of a run.
pub(super) struct Run {
    pub(super) scope: Scope,
    clock: Clock,
    pub(super) endpoint: Endpoint,
    pub(super) n: usize,
    pub(super) workers: usize,
    pub(super) rounds: usize,
    pub(super) rate: usize,
    pub(super) warmup: usize,
    pub(super) samples: usize,
}

impl Run {
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// Performs the run and prints its measurements, as one line of JSON. Logs are discarded.
pub(crate) fn main(arguments: ReconcileSubjectArguments) -> ExitCode {
    execution::measured(move |scope| run(scope, arguments))
}

async fn run(scope: Scope, arguments: ReconcileSubjectArguments) -> Result<Measured, Failure> {
    arguments.logger.start()?;
    let clock = scope.spawner().clock().clone();
    let run = Run {
        scope,
        clock,
        endpoint: serde_json::from_slice(&fs::read(&arguments.endpoint)?)?,
        n: arguments.n,
        workers: arguments.workers,
        rounds: arguments.rounds,
        rate: arguments.rate,
        warmup: arguments.warmup,
        samples: arguments.samples,
    };
    match (arguments.maker, arguments.task) {
        (Maker::Bowline, Task::Throughput) => bowline::throughput(&run).await,
        (Maker::Bowline, Task::Latency) => bowline::latency(&run).await,
        (Maker::KubeRs, Task::Throughput) => kube_rs::throughput(&run).await,
        (Maker::KubeRs, Task::Latency) => kube_rs::latency(&run).await,
    }
}

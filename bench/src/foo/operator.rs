//! An operator that is in this program, as a process of its own: it runs until its stdin ends, and tells what it used.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bowline_clock::{Clock, Scope};
use clap::Args;
use tokio::io::AsyncReadExt as _;

use super::{bowline, kube_rs};
use crate::apiserver::client::Endpoint;
use crate::apiserver::load::Failure;
use crate::maker::Maker;
use crate::metric::{CPU_S, RSS_PEAK_MIB, RSS_SETTLED_MIB};
use crate::subject::Measured;
use crate::{execution, process, sink};

/// How long to wait between two looks at the memory.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// What an operator is told. Those written in Go are told the same.
#[derive(Args, Debug)]
pub(crate) struct FooOperatorArguments {
    #[arg(long)]
    maker: Maker,
    /// The file that tells where the server is
    #[arg(long)]
    endpoint: PathBuf,
    /// How many Foos are looked after at once
    #[arg(long)]
    workers: usize,
}

/// Runs it and prints what it used, as one line of JSON. What is logged goes nowhere.
pub(crate) fn main(arguments: FooOperatorArguments) -> ExitCode {
    sink::log();
    execution::measured(move |scope| run(scope, arguments))
}

async fn run(scope: Scope, arguments: FooOperatorArguments) -> Result<Measured, Failure> {
    let endpoint: Endpoint = serde_json::from_slice(&fs::read(&arguments.endpoint)?)?;
    // Tasks are below the scope, and end with it.
    match arguments.maker {
        Maker::Bowline => bowline::start(&scope, &endpoint, arguments.workers)?,
        Maker::KubeRs => kube_rs::start(&scope, &endpoint, arguments.workers)?,
    }
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    let (cpu, peak) = (process::cpu_seconds(), process::status_mib("VmHWM"));
    let settled =
        process::settled(&Clock::real(), BETWEEN_LOOKS, || Ok(process::status_mib("VmRSS"))).await?;
    let values = [(CPU_S, cpu), (RSS_PEAK_MIB, peak), (RSS_SETTLED_MIB, settled)];
    Ok(values.into_iter().map(|(metric, value)| (metric.name.to_owned(), value)).collect())
}

//! An operator in Rust in its own process: it runs until its stdin ends, and reports its resource usage.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bowline_clock::{Clock, Scope};
use clap::{Parser, ValueEnum};
use tokio::io::AsyncReadExt as _;

use super::{bowline, kube_rs};
use crate::apiserver::client::Endpoint;
use crate::apiserver::load::Failure;
use crate::metric::{CPU_S, RSS_PEAK_MIB, RSS_SETTLED_MIB};
use crate::sink::Logger;
use crate::subject::Measured;
use crate::{execution, process};

/// Interval between two samples of the memory.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Arguments of an operator; the Go programs accept the same.
#[derive(Debug, Parser)]
struct OperatorArguments {
    /// The file with the server's endpoint
    #[arg(long)]
    endpoint: PathBuf,
    /// Number of workers
    #[arg(long)]
    workers: usize,
}

/// Arguments of our operator.
#[derive(Debug, Parser)]
struct OurArguments {
    #[command(flatten)]
    common: OperatorArguments,
    /// Part to run
    #[arg(long, default_value = "alone")]
    mode: Mode,
}

/// Parts of our operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// One controller
    Alone,
    /// A manager of three controllers
    Managed,
    /// The same as a replica that has to be elected
    Elected,
}

impl Mode {
    /// Name of a metric in a run with and without election.
    pub(super) fn key(self, metric: &str) -> String {
        match self {
            Self::Alone | Self::Managed => metric.to_owned(),
            Self::Elected => format!("election {metric}"),
        }
    }
}

/// Our operator, from the command line to its usage report.
pub(crate) fn bowline() -> ExitCode {
    let OurArguments { common, mode } = OurArguments::parse();
    main(common, move |scope, endpoint, workers| match mode {
        Mode::Alone => bowline::start(scope, endpoint, workers),
        Mode::Managed => bowline::start_managed(scope, endpoint, workers, false),
        Mode::Elected => bowline::start_managed(scope, endpoint, workers, true),
    })
}

/// The operator on kube-rs.
pub(crate) fn kube_rs() -> ExitCode {
    main(OperatorArguments::parse(), kube_rs::start)
}

/// Runs an operator and prints its usage, as one line of JSON. Logs are discarded.
fn main<F>(arguments: OperatorArguments, start: F) -> ExitCode
where
    F: FnOnce(&Scope, &Endpoint, usize) -> Result<(), Failure> + Send + 'static,
{
    execution::measured(move |scope| run(scope, arguments, start))
}

async fn run<F>(scope: Scope, arguments: OperatorArguments, start: F) -> Result<Measured, Failure>
where
    F: FnOnce(&Scope, &Endpoint, usize) -> Result<(), Failure>,
{
    Logger::Bowline.start()?;
    let endpoint: Endpoint = serde_json::from_slice(&fs::read(&arguments.endpoint)?)?;
    // Tasks run below the scope, and end with it.
    start(&scope, &endpoint, arguments.workers)?;
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    let (cpu, peak) = (process::cpu_seconds(), process::status_mib("VmHWM"));
    let settled =
        process::settled(&Clock::real(), BETWEEN_LOOKS, || Ok(process::status_mib("VmRSS"))).await?;
    let values = [(CPU_S, cpu), (RSS_PEAK_MIB, peak), (RSS_SETTLED_MIB, settled)];
    Ok(values.into_iter().map(|(metric, value)| (metric.name.to_owned(), value)).collect())
}

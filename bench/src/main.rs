//! Runs the same work on Bowline and on its peers, and tells how they compare. See `README.md`.

mod arguments;
mod go;
mod process;
mod report;
mod scenario;
mod subject;
mod workqueue;

use std::process::ExitCode;

use clap::Parser as _;

use crate::arguments::{Arguments, Command};

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Workqueue(arguments) => workqueue::run(&arguments),
        Command::WorkqueueSubject { workload, n } => workqueue::subject::main(workload, n),
    }
}

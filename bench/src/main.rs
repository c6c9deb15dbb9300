//! Runs the same work on Bowline and on its peers, and tells how they compare. See `README.md`.

mod apiserver;
mod arguments;
mod go;
mod process;
mod report;
mod scenario;
mod subject;
mod workqueue;

use std::process::ExitCode;

use clap::Parser as _;

use crate::apiserver::Scenario;
use crate::arguments::{Arguments, Command};

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Workqueue(arguments) => workqueue::run(&arguments),
        Command::WorkqueueSubject { workload, n } => workqueue::subject::main(workload, n),
        Command::ApiserverStart(common) => apiserver::run(Scenario::Start, &common, None),
        Command::ApiserverWrite(arguments) => apiserver::run(Scenario::Write, &arguments.common, arguments.n),
        Command::ApiserverList(arguments) => apiserver::run(Scenario::List, &arguments.common, arguments.n),
        Command::ApiserverWatch(arguments) => apiserver::run(Scenario::Watch, &arguments.common, arguments.n),
        Command::ApiserverLoad(arguments) => apiserver::load::main(arguments),
        Command::ApiserverSubject { task, n } => apiserver::subject::main(task, n),
    }
}

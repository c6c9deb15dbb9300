//! Runs the same work on Bowline and on its peers, and compares them. See `README.md`.
//!
//! A library because it is several programs: the one that measures, the same with an allocator that counts, and operators
//! that have to be measured by themselves.

mod apiserver;
mod arguments;
mod companion;
mod execution;
mod foo;
mod go;
mod informer;
mod maker;
mod metric;
mod process;
mod reconcile;
mod replay;
mod report;
mod scenario;
mod sink;
mod subject;
mod workqueue;

use std::process::ExitCode;

use clap::Parser as _;

use crate::apiserver::Scenario;
use crate::arguments::{Arguments, Command};
use crate::informer::Scenario as Informer;
use crate::reconcile::Scenario as Reconcile;
use crate::sink::Logger;

/// Runs the command line. `allocated` returns the allocated bytes, in a program with a counting allocator.
#[must_use]
pub fn run(allocated: Option<fn() -> usize>) -> ExitCode {
    match Arguments::parse().command {
        Command::Workqueue(arguments) => workqueue::run(&arguments),
        Command::WorkqueueSubject { workload, n } => workqueue::subject::main(workload, n),
        Command::ApiserverStart(common) => apiserver::run(Scenario::Start, &common, None),
        Command::ApiserverWrite(arguments) => apiserver::run(Scenario::Write, &arguments.common, arguments.n),
        Command::ApiserverList(arguments) => apiserver::run(Scenario::List, &arguments.common, arguments.n),
        Command::ApiserverWatch(arguments) => apiserver::run(Scenario::Watch, &arguments.common, arguments.n),
        Command::ApiserverLoad(arguments) => apiserver::load::main(arguments),
        Command::InformerSync(arguments) => informer::run(Informer::Sync, &arguments.common, arguments.n),
        Command::InformerEvents(arguments) => informer::run(Informer::Events, &arguments.common, arguments.n),
        Command::CacheRead(arguments) => informer::run(Informer::CacheRead, &arguments.common, arguments.n),
        Command::InformerServer { programs, n } => informer::fill::main(programs, n),
        Command::InformerSubject(arguments) => informer::subject::main(arguments, allocated),
        Command::ReconcileThroughput(arguments) => {
            reconcile::run(Reconcile::Throughput, &arguments.common, arguments.n, arguments.logger)
        }
        Command::ReconcileLatency(arguments) => {
            reconcile::run(Reconcile::Latency, &arguments.common, arguments.n, Logger::Bowline)
        }
        Command::ReconcileSubject(arguments) => reconcile::subject::main(arguments),
        Command::FooConverge(arguments) => foo::run(&arguments),
        Command::FooServer { programs } => foo::server::main(programs),
        Command::FooLoad(arguments) => foo::load::main(arguments),
        Command::ReplayServer { n } => replay::main(n),
        Command::ReplayCeiling { n } => replay::ceiling::main(n),
        Command::ApiserverSubject { task, n } => apiserver::subject::main(task, n),
    }
}

/// Runs the sample controller on our own libraries until stdin ends, and prints its resource usage.
#[must_use]
pub fn bowline_foo() -> ExitCode {
    foo::operator::bowline()
}

/// Runs the sample controller on kube-rs until stdin ends, and prints its resource usage.
#[must_use]
pub fn kube_rs_foo() -> ExitCode {
    foo::operator::kube_rs()
}

//! The `pod-printer` program: finds an API server, and runs the controller on it until the demo is over or a signal comes.

mod arguments;
mod cluster;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use bowline::clock::Clock;
use bowline::runtime::{Result, Signals};
use clap::Parser as _;
use k8s_openapi::api::core::v1::Pod;
use pod_printer::{Controller, Demo, Print};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use crate::arguments::Arguments;
use crate::cluster::Cluster;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    write_logs();
    match Box::pin(run(&arguments)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If the standard error is closed, the exit code alone reports the failure.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<()> {
    let mut signals = Signals::listen()?;
    let clock = Clock::real();
    let scope = clock.scope("pod-printer");
    let namespace = &arguments.namespace;
    let cluster = Cluster::connect(arguments.kubeconfig.as_ref(), &clock).await?;

    let print: Print = Arc::new(print);
    let demo = Demo::new(clock, cluster.client(), namespace, print.clone());
    let output = if arguments.plays_demo() { demo.output() } else { print };
    let controller = Controller::new(&scope.spawner(), cluster.client(), namespace, output)?;
    controller.remember(my_pod(namespace));

    let mut shown = Ok(());
    let stop = async {
        tokio::select! {
            biased;
            () = signals.wait() => {}
            outcome = show(arguments, &demo, &cluster) => shown = outcome,
        }
    };
    let ran = Box::pin(controller.run(arguments.workers, stop)).await;
    cluster.close().await;
    ran?;
    Ok(shown?)
}

/// Plays the demo, and ends after it unless the program stays.
async fn show(arguments: &Arguments, demo: &Demo, cluster: &Cluster) -> kube::Result<()> {
    if arguments.plays_demo() {
        demo.play().await?;
    }
    if let Some(kubeconfig) = cluster.kubeconfig().filter(|_| arguments.watch) {
        demo.say(&format!("your turn: kubectl --kubeconfig {kubeconfig} run web-3 --image nginx"));
    }
    if arguments.stays() {
        std::future::pending::<()>().await;
    }
    Ok(())
}

/// A pod that existed when the program last ran.
fn my_pod(namespace: &str) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.namespace = Some(namespace.to_owned());
    pod.metadata.name = Some("mypod".to_owned());
    pod
}

fn print(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

/// Writes logs to the standard error: those of the program, and warnings of its libraries.
fn write_logs() {
    let targets =
        Targets::new().with_default(LevelFilter::WARN).with_target("pod_printer", LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false);
    tracing_subscriber::registry().with(lines.with_filter(targets)).init();
}

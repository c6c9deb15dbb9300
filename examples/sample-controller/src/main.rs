//! The `sample-controller` program: finds an API server and runs the operator there, until it is asked to end.

mod arguments;
mod plane;

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use bowline::cache::Settings;
use bowline::prelude::*;
use bowline::runtime::Signals;
use bowline::runtime::transport::{self, TransportOptions};
use clap::Parser as _;
use sample_controller::{Foo, operator};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use crate::arguments::Arguments;
use crate::plane::Plane;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    write_logs();
    let outcome = match &arguments.kubeconfig {
        _ if arguments.crd => print_definition(),
        Some(path) => Box::pin(run_on_cluster(path.as_deref(), arguments.namespace.as_deref())).await,
        None => Box::pin(run_on_plane()).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where the standard error is closed, the exit code is all that is left to say.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// On the cluster of a kubeconfig, in one namespace or in all.
async fn run_on_cluster(kubeconfig: Option<&Path>, namespace: Option<&str>) -> Result<()> {
    let signals = Signals::listen()?;
    let config = transport::config(kubeconfig).await?;
    let client = transport::client(&config, &TransportOptions::new(&Clock::real()))?;
    let namespaces = namespace.map(|namespace| (namespace, Settings::new()));
    run(client, CacheOptions::new().namespaces(namespaces), signals).await
}

/// On an API server inside this process, which `kubectl` can see.
async fn run_on_plane() -> Result<()> {
    let signals = Signals::listen()?;
    let plane = Plane::start().await?;
    let outcome = match write!(io::stdout(), "{plane}") {
        Ok(()) => run(plane.client(), CacheOptions::new(), signals).await,
        Err(error) => Err(error.into()),
    };
    plane.stop().await;
    outcome
}

/// Until a signal comes, or the operator cannot go on.
async fn run(client: bowline::kube::Client, cache: CacheOptions, mut signals: Signals) -> Result<()> {
    let scope = Clock::real().scope("sample-controller");
    let cluster = Cluster::builder(&scope.spawner(), client).cache(cache).build()?;
    let controller = operator(&cluster)?;
    cluster.start();
    let outcome = tokio::select! {
        biased;
        () = signals.wait() => controller.stop().await.map(drop),
        ended = controller.run() => ended,
    };
    cluster.stop().await;
    Ok(outcome?)
}

fn print_definition() -> Result<()> {
    let definition = serde_json::to_string_pretty(&Foo::crd())?;
    Ok(writeln!(io::stdout(), "{definition}")?)
}

/// Every reconcile, and why it ran, goes to the standard error; of all else, only what went wrong.
fn write_logs() {
    let told = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target("bowline_runtime::controller", LevelFilter::DEBUG);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false);
    tracing_subscriber::registry().with(lines.with_filter(told)).init();
}

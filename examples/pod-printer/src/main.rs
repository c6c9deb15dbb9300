//! The `pod-printer` program: finds an API server, runs the controller on it, and ends when there is nothing more to see.

mod arguments;
mod cluster;
mod signals;

use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use bowline::clock::Clock;
use bowline_apiserver::ApiServer;
use clap::Parser as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use pod_printer::{Controller, Demo, Print};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use crate::arguments::Arguments;
use crate::cluster::Socket;
use crate::signals::Signals;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    write_logs();
    match run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where the standard error is closed, the exit code is all that is left to say.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let mut signals = Signals::listen()?;
    let print: Print = Arc::new(print);
    let mut socket = None;
    let client = match &arguments.kubeconfig {
        Some(path) => cluster::real(path.as_deref()).await?,
        None => {
            let server = ApiServer::builder().build()?;
            if arguments.watch {
                socket = Some(Socket::open(&server).await?);
            }
            Client::new(server, "default")
        }
    };

    let (clock, namespace) = (Clock::real(), &arguments.namespace);
    let demo = Demo::new(clock.clone(), client.clone(), namespace, print.clone());
    let output = if arguments.plays_demo() { demo.output() } else { print.clone() };
    if arguments.plays_demo() {
        demo.prepare().await?;
    }

    let scope = clock.scope("pod-printer");
    let controller = Controller::new(&scope.spawner(), client, namespace, output)?;
    controller.remember(my_pod(namespace));

    let mut played = Ok(());
    let show = async {
        if arguments.plays_demo() {
            played = demo.play().await;
        }
        if played.is_ok() && arguments.stays() {
            if let Some(socket) = &socket {
                let path = socket.kubeconfig().display();
                let _ = print(&format!("-- your turn: KUBECONFIG={path} kubectl run web-3 --image=nginx"));
            }
            std::future::pending().await
        }
    };
    let stop = async {
        tokio::select! {
            biased;
            () = signals.wait() => {}
            () = show => {}
        }
    };
    controller.run(arguments.workers, stop).await?;
    if let Some(socket) = socket {
        socket.close().await;
    }
    Ok(played?)
}

/// Suppose that we knew of this pod when we last ran.
fn my_pod(namespace: &str) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.namespace = Some(namespace.to_owned());
    pod.metadata.name = Some("mypod".to_owned());
    pod
}

fn print(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

/// What the program says about itself goes to the standard error; of its libraries, only what went wrong.
fn write_logs() {
    let told = Targets::new().with_default(LevelFilter::WARN).with_target("pod_printer", LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false);
    tracing_subscriber::registry().with(lines.with_filter(told)).init();
}

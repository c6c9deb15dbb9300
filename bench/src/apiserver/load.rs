//! One run of a scenario on one API server: starts it, sends requests, and reports its resource usage. This process is
//! the load generator; the server has its own processes.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline_clock::Scope;
use bytes::Bytes;
use clap::Args;

use super::client::{Asked, Client, Connection};
use super::server::Server;
use super::{Maker, Metric, Scenario, key, list, object, start, watch, write};
use crate::execution;
use crate::subject::Measured;

/// A run failed.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Arguments of a run.
#[derive(Args, Debug)]
pub(crate) struct LoadArguments {
    #[arg(long)]
    pub(super) scenario: Scenario,
    #[arg(long)]
    pub(crate) maker: Maker,
    #[arg(long)]
    pub(crate) n: usize,
    /// Directory of kube-apiserver and etcd
    #[arg(long)]
    pub(super) programs: Option<PathBuf>,
    /// This program in the dev profile
    #[arg(long)]
    pub(super) dev_program: Option<PathBuf>,
}

/// Performs the run and prints its measurements, as one line of JSON.
pub(crate) fn main(arguments: LoadArguments) -> ExitCode {
    execution::measured(move |scope| run(scope, arguments))
}

async fn run(scope: Scope, arguments: LoadArguments) -> Result<Measured, Failure> {
    let server = Server::start(&scope.spawner(), arguments.maker, arguments.programs.as_deref()).await?;
    let run = Run { scope, n: arguments.n, maker: arguments.maker, server };
    let measured = match arguments.scenario {
        Scenario::Start => start::run(&run, arguments.dev_program.as_deref()).await,
        Scenario::Write => write::run(&run).await,
        Scenario::List => list::run(&run).await,
        Scenario::Watch => watch::run(&run).await,
    }?;
    run.server.stop().await?;
    Ok(measured.0)
}

/// A ready server, and the work to do.
pub(crate) struct Run {
    pub(crate) scope: Scope,
    pub(crate) n: usize,
    pub(crate) maker: Maker,
    pub(crate) server: Server,
}

/// Measurements so far.
#[derive(Debug, Default)]
pub(super) struct Values(Measured);

impl Values {
    pub(super) fn put(&mut self, variant: &str, metric: Metric, value: f64) {
        self.0.insert(key(variant, metric), value);
    }
}

/// Resources that a server used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) wall: Duration,
    pub(crate) cpu_seconds: f64,
}

impl Run {
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        self.server.client(&self.scope.spawner())
    }

    /// Creates the namespaces of the objects.
    pub(crate) async fn make_namespaces(&self, client: &Client) -> Result<(), Failure> {
        let mut connection = client.connect().await?;
        for number in 0..object::NAMESPACES {
            let body = serde_json::json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": object::namespace(number)},
            });
            connection.ask(Asked::post("/api/v1/namespaces", body.to_string().into_bytes())).await?;
        }
        Ok(())
    }

    /// As [`ask_all`], with the server's resource usage.
    pub(crate) async fn ask_all<T: Clone + Default + Send + 'static>(
        &self,
        connections: &mut Vec<Connection>,
        n: usize,
        make: impl Fn(usize) -> Asked + Send + Sync + 'static,
        read: fn(&Bytes) -> Option<T>,
    ) -> Result<(Vec<T>, Used), Failure> {
        let clock = self.scope.spawner().clock().clone();
        let (began, cpu) = (clock.now(), self.server.cpu_seconds()?);
        let all = ask_all(&self.scope, connections, n, make, read).await?;
        let wall = clock.now().duration_since(began);
        Ok((all, Used { wall, cpu_seconds: self.server.cpu_seconds()? - cpu }))
    }
}

/// Sends the requests that `make` builds for the numbers up to `n`, on all connections; each takes the next number
/// after its response. Returns the results of `read` in the order of the numbers.
pub(crate) async fn ask_all<T: Clone + Default + Send + 'static>(
    scope: &Scope,
    connections: &mut Vec<Connection>,
    n: usize,
    make: impl Fn(usize) -> Asked + Send + Sync + 'static,
    read: fn(&Bytes) -> Option<T>,
) -> Result<Vec<T>, Failure> {
    let (next, make) = (Arc::new(AtomicUsize::new(0)), Arc::new(make));
    let tasks: Vec<_> = connections
        .drain(..)
        .map(|mut connection| {
            let (next, make) = (next.clone(), make.clone());
            scope.spawn("asking", async move {
                let mut answers = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= n {
                        return Ok::<_, Failure>((connection, answers));
                    }
                    let answer = connection.ask(make(number)).await?;
                    let answer = read(&answer).ok_or("an answer is not as expected")?;
                    answers.push((number, answer));
                }
            })
        })
        .collect();
    let mut all = vec![T::default(); n];
    for task in tasks {
        let (connection, answers) = task.await??;
        connections.push(connection);
        for (number, answer) in answers {
            all[number] = answer;
        }
    }
    Ok(all)
}

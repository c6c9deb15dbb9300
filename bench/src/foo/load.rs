//! One run of one operator: creates Foos, starts the operator, waits until it has converged, and reports its resource
//! usage.
//!
//! This process only observes: it has one watch of the Foos, and reads the operator's usage from `/proc`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use bowline_clock::{Clock, Scope};
use clap::Args;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

use super::operator::Mode;
use super::requests::Requests;
use super::{API_CALLS, CONFLICTS, EVENTS, IDLE_WRITES, object};
use crate::apiserver::client::{Asked, Client, Connection, Endpoint, string};
use crate::apiserver::load::{Failure, ask_all};
use crate::arguments::typed;
use crate::metric::WALL_S;
use crate::subject::Measured;
use crate::{execution, process};

/// Number of connections that create Foos.
const FILLING: usize = 16;

/// Timeout for an operator to converge, and then to get quiet.
const PATIENCE: Duration = Duration::from_secs(400);
const BUSY_PATIENCE: Duration = Duration::from_secs(120);

/// Maximum CPU use of a quiet operator, and the number of samples.
const QUIET_CPU_SECONDS: f64 = 0.02;
const QUIET_LOOKS: usize = 6;
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// Arguments of a run.
#[derive(Args, Debug)]
pub(crate) struct FooLoadArguments {
    /// The file with the server's endpoint
    #[arg(long)]
    endpoint: PathBuf,
    /// The operator
    #[arg(long)]
    program: PathBuf,
    /// Number of Foos
    #[arg(long)]
    n: usize,
    /// Number of workers
    #[arg(long)]
    workers: usize,
    /// Three controllers of ours, without an election and with one
    #[arg(long)]
    election: bool,
}

/// Performs the run and prints its measurements, as one line of JSON.
pub(crate) fn main(arguments: FooLoadArguments) -> ExitCode {
    execution::measured_on_one_thread(move |scope| run(scope, arguments))
}

async fn run(scope: Scope, arguments: FooLoadArguments) -> Result<Measured, Failure> {
    let endpoint: Endpoint = serde_json::from_slice(&fs::read(&arguments.endpoint)?)?;
    let client = Client::new(&endpoint, scope.spawner())?;
    let mut modes = if arguments.election { vec![Mode::Managed, Mode::Elected] } else { vec![Mode::Alone] };
    // In random order: the server differs before and after.
    if scope.spawner().clock().rng().next_u64().is_multiple_of(2) {
        modes.reverse();
    }
    let mut all = Measured::new();
    for mode in modes {
        let measured = run_once(&scope, &client, &arguments, mode).await?;
        all.extend(measured.into_iter().map(|(metric, value)| (mode.key(&metric), value)));
    }
    Ok(all)
}

/// One operator, with its own Foos.
async fn run_once(
    scope: &Scope,
    client: &Client,
    arguments: &FooLoadArguments,
    mode: Mode,
) -> Result<Measured, Failure> {
    let clock = scope.spawner().clock().clone();
    // A new namespace each time, since without kube-controller-manager none is ever removed.
    let namespace = format!("foo-{:016x}", clock.rng().next_u64());
    let mut connections = client.connect_all(FILLING).await?;
    fill(scope, &mut connections, &namespace, arguments.n).await?;
    let measured = measure(&clock, client, arguments, mode, &namespace).await;
    clean(&mut connections[0], &namespace).await?;
    measured
}

/// Creates all Foos, with the status of a Deployment that does not exist.
async fn fill(
    scope: &Scope,
    connections: &mut Vec<Connection>,
    namespace: &str,
    n: usize,
) -> Result<(), Failure> {
    let body = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    connections[0].ask(Asked::post("/api/v1/namespaces", body.to_string().into_bytes())).await?;
    let foos = foos(namespace);
    let path = foos.clone();
    let create = move |number| Asked::post(path.clone(), object::body(number));
    ask_all(scope, connections, n, create, |_| Some(())).await?;
    let patch =
        move |number| Asked::patch(format!("{foos}/{}/status", object::name(number)), object::stale_status());
    ask_all(scope, connections, n, patch, |_| Some(())).await?;
    Ok(())
}

/// Starts the operator, and stops it when it is quiet.
#[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53")]
async fn measure(
    clock: &Clock,
    client: &Client,
    arguments: &FooLoadArguments,
    mode: Mode,
    namespace: &str,
) -> Result<Measured, Failure> {
    let mut connection = client.connect().await?;
    let mut watching = client.connect().await?;
    let list = connection.ask(Asked::get(foos(namespace) + "?limit=1")).await?;
    let revision = string(&list, "resourceVersion").ok_or("a list has no revision")?;
    let watch = format!("{}?watch=true&resourceVersion={revision}", foos(namespace));
    let mut watch = Watch { body: watching.start(Asked::get(watch)).await?.into_body(), read: Vec::new() };
    let before = Requests::so_far(&mut connection).await?;

    let began = clock.now();
    let mut operator = start(arguments, mode)?;
    // Waiting for it would close its stdin.
    let stdin = operator.stdin.take();
    tokio::select! {
        biased;
        converged = clock.timeout(PATIENCE, watch.converged(arguments.n)) => {
            let _: () = converged.map_err(|_| "not all Foos had their status in time")??;
        }
        status = operator.wait() => return Err(format!("the operator ended: {}", status?).into()),
    }
    let wall = clock.now().duration_since(began).as_secs_f64();

    quiet(clock, operator.id().ok_or("the operator has ended")?).await?;
    drop(stdin);
    let mut measured = ended(&mut operator).await?;
    let asked = Requests::so_far(&mut connection).await?.since(&before);
    // Visible only if a run failed, or was started by hand.
    eprint!("{}", asked.describe());
    // After the operator's requests were counted, since this one would count too.
    let list = connection.ask(Asked::get(deployments(namespace) + "?limit=1")).await?;
    let deployments = count(&list)?;
    if deployments != arguments.n {
        return Err(format!("{deployments} Deployments, not {}", arguments.n).into());
    }
    // One Deployment and one status for each.
    let idle =
        asked.writes().checked_sub(2 * arguments.n as u64).ok_or("the server counted too few writes")?;
    let counts = [
        (API_CALLS, asked.all()),
        (EVENTS, asked.events()),
        (CONFLICTS, asked.conflicts()),
        (IDLE_WRITES, idle),
    ];
    measured.insert(WALL_S.name.to_owned(), wall);
    measured.extend(counts.map(|(metric, count)| (metric.name.to_owned(), count as f64)));
    Ok(measured)
}

fn start(arguments: &FooLoadArguments, mode: Mode) -> Result<Child, Failure> {
    let mut command = Command::new(&arguments.program);
    if mode != Mode::Alone {
        command.args(["--mode", &typed(&mode)]);
    }
    // Go's `flag` accepts two dashes as well. The operator ends with its stdin, and so with this process.
    let started = command
        .arg("--endpoint")
        .arg(&arguments.endpoint)
        .args(["--workers", &arguments.workers.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    Ok(started)
}

/// Usage report of the operator after its stop was requested.
async fn ended(operator: &mut Child) -> Result<Measured, Failure> {
    let mut printed = Vec::new();
    operator.stdout.take().ok_or("the operator has no stdout")?.read_to_end(&mut printed).await?;
    let status = operator.wait().await?;
    if !status.success() {
        return Err(format!("the operator ended: {status}").into());
    }
    Ok(serde_json::from_slice(&printed)?)
}

/// Waits until the operator is quiet: events are written last.
async fn quiet(clock: &Clock, pid: u32) -> Result<(), Failure> {
    let quiet = async {
        let mut looks = vec![process::cpu_seconds_of(pid)?];
        loop {
            clock.sleep(BETWEEN_LOOKS).await;
            let now = process::cpu_seconds_of(pid)?;
            looks.push(now);
            let first = looks.len().checked_sub(QUIET_LOOKS + 1).map(|first| looks[first]);
            if first.is_some_and(|first| now - first < QUIET_CPU_SECONDS) {
                return Ok::<_, Failure>(());
            }
        }
    };
    clock.timeout(BUSY_PATIENCE, quiet).await.map_err(|_| "the operator was still busy after a while")?
}

/// Deletes all objects, so that each run starts with the same state.
async fn clean(connection: &mut Connection, namespace: &str) -> Result<(), Failure> {
    let events = format!("/api/v1/namespaces/{namespace}/events");
    for collection in [foos(namespace), deployments(namespace), events] {
        connection.ask(Asked::delete(collection)).await?;
    }
    Ok(())
}

/// The events of all Foos.
struct Watch {
    body: Incoming,
    /// Start of an incomplete line.
    read: Vec<u8>,
}

/// The compared fields of an event.
#[derive(Deserialize)]
struct Seen {
    object: SeenFoo,
}

#[derive(Deserialize)]
struct SeenFoo {
    metadata: SeenMetadata,
    status: Option<object::FooStatus>,
}

#[derive(Deserialize)]
struct SeenMetadata {
    name: String,
}

impl Watch {
    /// Reads until all Foos have the expected status. Their Deployments exist then: operators write the status last.
    async fn converged(&mut self, n: usize) -> Result<(), Failure> {
        let mut converged = BTreeSet::new();
        while converged.len() < n {
            let frame = self.body.frame().await.ok_or("the watch ended")??;
            let Some(data) = frame.data_ref() else { continue };
            self.read.extend_from_slice(data);
            let Some(end) = memchr::memrchr(b'\n', &self.read) else { continue };
            for line in self.read[..end].split(|byte| *byte == b'\n') {
                let Seen { object } = serde_json::from_slice(line)?;
                if object.status.is_some_and(|status| status.available_replicas == object::REPLICAS) {
                    converged.insert(object.metadata.name);
                }
            }
            self.read.drain(..=end);
        }
        Ok(())
    }
}

/// Number of objects, from a list of the first.
fn count(list: &[u8]) -> Result<usize, Failure> {
    #[derive(Deserialize)]
    struct List {
        metadata: Metadata,
        items: Vec<serde::de::IgnoredAny>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        #[serde(default)]
        remaining_item_count: usize,
    }
    let list: List = serde_json::from_slice(list)?;
    Ok(list.items.len() + list.metadata.remaining_item_count)
}

fn foos(namespace: &str) -> String {
    format!("/apis/samplecontroller.k8s.io/v1alpha1/namespaces/{namespace}/foos")
}

fn deployments(namespace: &str) -> String {
    format!("/apis/apps/v1/namespaces/{namespace}/deployments")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_the_first_tells_how_many_there_are() {
        let count = |list: &str| count(list.as_bytes()).unwrap();
        assert_eq!(count(r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#), 0);
        assert_eq!(count(r#"{"metadata":{"remainingItemCount":499,"continue":"a"},"items":[{"a":1}]}"#), 500);
    }
}

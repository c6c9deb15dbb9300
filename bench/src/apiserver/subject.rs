//! Our own API server as a process: on a socket, or in process.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline_apiserver::{ApiServer, ServeOptions};
use bowline_clock::{Clock, Scope};
use bytes::Bytes;
use clap::ValueEnum;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tower_service::Service as _;

use super::client::{Asked, Endpoint};
use super::load::Failure;
use super::object::{NAMESPACES, namespace};
use super::write::{self, VERBS};
use super::{READY_MS, REQUESTS_PER_S, key};
use crate::subject::Measured;

/// Number of concurrent tasks in process: the same as connections on the socket.
const CALLERS: usize = 16;

/// Timeout for running requests at the end of the server.
const SHUTDOWN: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Task {
    /// Serve on a socket until stdin ends; prints the endpoint to stdout first
    Serve,
    /// Build the server and answer once
    Start,
    /// Answer writes and reads
    Write,
}

pub(crate) fn main(task: Task, n: usize) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let result = runtime.map_err(Failure::from).and_then(|runtime| {
        runtime.block_on(async {
            match task {
                Task::Serve => serve().await,
                Task::Start => start().await.map(|measured| print(&measured)),
                Task::Write => write(n).await.map(|measured| print(&measured)),
            }
        })
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(measured: &Measured) {
    println!("{}", serde_json::to_string(measured).expect("strings and numbers are always JSON"));
}

async fn serve() -> Result<(), Failure> {
    let server = ApiServer::builder().build()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let serving = server.serve(listener, ServeOptions::default())?;
    let kubeconfig = serving.kubeconfig();
    let endpoint = Endpoint {
        server: kubeconfig.server().to_owned(),
        authority: kubeconfig.certificate_authority().to_owned(),
        token: kubeconfig.token().expose().to_owned(),
    };
    println!("{}", serde_json::to_string(&endpoint)?);
    // The parent process holds the other end, so this process ends with it in any case.
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    serving.stop(SHUTDOWN).await;
    Ok(())
}

async fn start() -> Result<Measured, Failure> {
    let clock = Clock::real();
    let began = clock.now();
    let server = ApiServer::builder().build()?;
    answer(&server, Asked::get("/api/v1/namespaces/default")).await?;
    let ready = clock.now().duration_since(began);
    Ok(Measured::from([(READY_MS.name.to_owned(), ready.as_secs_f64() * 1e3)]))
}

/// The same requests as on the socket, with the same concurrency, sent and answered by the same threads.
async fn write(n: usize) -> Result<Measured, Failure> {
    let server = ApiServer::builder().build()?;
    let scope = Clock::real().scope("callers");
    for number in 0..NAMESPACES {
        let body = serde_json::json!({"metadata": {"name": namespace(number)}});
        answer(&server, Asked::post("/api/v1/namespaces", body.to_string().into_bytes())).await?;
    }
    let name = |number: usize| format!("web-{number:06}");
    let (revisions, created) =
        call_all(&scope, &server, n, move |number| write::create(&name(number), number)).await?;
    let (_, updated) =
        call_all(&scope, &server, n, move |number| write::update(&name(number), number, &revisions[number]))
            .await?;
    let (_, got) = call_all(&scope, &server, n, move |number| write::get(&name(number), number)).await?;
    Ok(VERBS
        .into_iter()
        .zip([created, updated, got])
        .map(|(verb, rate)| (key(verb, REQUESTS_PER_S), rate))
        .collect())
}

/// Sends the requests of the numbers up to `n`. Returns the revisions in the responses, and the requests per second.
#[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53")]
async fn call_all(
    scope: &Scope,
    server: &ApiServer,
    n: usize,
    make: impl Fn(usize) -> Asked + Send + Sync + 'static,
) -> Result<(Vec<String>, f64), Failure> {
    let clock = scope.spawner().clock().clone();
    let (next, make) = (Arc::new(AtomicUsize::new(0)), Arc::new(make));
    let began = clock.now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (server, next, make) = (server.clone(), next.clone(), make.clone());
            scope.spawn("caller", async move {
                let mut answers = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= n {
                        return Ok::<_, Failure>(answers);
                    }
                    let body = answer(&server, make(number)).await?;
                    answers.push((number, write::revision(&body).ok_or("an answer without a revision")?));
                }
            })
        })
        .collect();
    let mut revisions = vec![String::new(); n];
    for caller in callers {
        for (number, revision) in caller.await?? {
            revisions[number] = revision;
        }
    }
    Ok((revisions, n as f64 / clock.now().duration_since(began).as_secs_f64()))
}

async fn answer(server: &ApiServer, asked: Asked) -> Result<Bytes, Failure> {
    let Asked { method, path, body } = asked;
    let what = format!("{method} {path}");
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let response = server.clone().call(request.body(Full::new(Bytes::from(body)))?).await?;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(Box::<dyn Error + Send + Sync>::from)?.to_bytes();
    if status.is_success() {
        return Ok(body);
    }
    Err(format!("{what}: {status}: {}", String::from_utf8_lossy(&body)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(work)
    }

    #[test]
    fn a_server_in_process_starts_and_answers() {
        assert!(block_on(start()).unwrap()["ready_ms"] > 0.0);
    }

    #[test]
    fn writes_in_process_are_counted_by_verb() {
        let measured = block_on(write(50)).unwrap();
        for verb in VERBS {
            assert!(measured[&key(verb, REQUESTS_PER_S)] > 0.0, "{verb}");
        }
    }
}

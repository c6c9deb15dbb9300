//! `apiserver-write`: `ConfigMap` objects of 1 KB are created, updated and read, one request at a time on each connection.

use std::sync::Arc;

use bytes::Bytes;

use super::client::{Asked, Connection, string};
use super::load::{Failure, Run, Used, Values};
use super::object::{Objects, namespace};
use super::start::in_process_task;
use super::{CPU_US_PER_REQUEST, Maker, REQUESTS_PER_S, key, row, row_against};
use crate::report::Row;

const CONNECTIONS: [usize; 2] = [16, 64];
pub(super) const VERBS: [&str; 3] = ["create", "update", "get"];

/// Number of warm-up requests of each kind, on every server.
const WARMING: usize = 1_000;

pub(super) fn rows(n: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for connections in CONNECTIONS {
        for verb in VERBS {
            let variant = on_socket(verb, connections, n);
            rows.push(row(&variant, CPU_US_PER_REQUEST, Some(0.125)));
            rows.push(row(&variant, REQUESTS_PER_S, None));
        }
    }
    for verb in VERBS {
        let (variant, against) = (in_process(verb, n), on_socket(verb, CONNECTIONS[0], n));
        rows.push(row_against(&variant, &against, REQUESTS_PER_S, None));
    }
    rows
}

fn on_socket(verb: &str, connections: usize, n: usize) -> String {
    format!("{verb} connections={connections} n={n}")
}

fn in_process(verb: &str, n: usize) -> String {
    format!("{verb} in-process n={n}")
}

pub(super) async fn run(run: &Run) -> Result<Values, Failure> {
    let client = run.client()?;
    run.make_namespaces(&client).await?;
    let n = run.n;
    let mut values = Values::default();
    let mut warming = client.connect_all(CONNECTIONS[0]).await?;
    phases(run, &mut warming, "warming", WARMING.min(n)).await?;
    drop(warming);
    for connections in CONNECTIONS {
        let mut open = client.connect_all(connections).await?;
        let used = phases(run, &mut open, &format!("web-{connections}"), n).await?;
        for (verb, used) in VERBS.into_iter().zip(used) {
            put(&mut values, &on_socket(verb, connections, n), n, used);
        }
    }
    if run.maker == Maker::Bowline {
        let measured = in_process_task(&std::env::current_exe()?, "write", n).await?;
        for verb in VERBS {
            let rate =
                measured.get(&key(verb, REQUESTS_PER_S)).ok_or("a rate in process was not measured")?;
            values.put(&in_process(verb, n), REQUESTS_PER_S, *rate);
        }
    }
    Ok(values)
}

#[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53")]
fn put(values: &mut Values, variant: &str, n: usize, used: Used) {
    values.put(variant, CPU_US_PER_REQUEST, used.cpu_seconds * 1e6 / n as f64);
    values.put(variant, REQUESTS_PER_S, n as f64 / used.wall.as_secs_f64());
}

/// Creates `n` objects, updates each, and reads each.
async fn phases(
    run: &Run,
    connections: &mut Vec<Connection>,
    prefix: &str,
    n: usize,
) -> Result<[Used; 3], Failure> {
    let prefix: Arc<str> = prefix.into();
    let name = move |number: usize| format!("{prefix}-{number:06}");
    let (revisions, created) = run.ask_all(connections, n, with(name.clone(), create), revision).await?;
    let put = {
        let name = name.clone();
        move |number: usize| update(&name(number), number, &revisions[number])
    };
    let (_, updated) = run.ask_all(connections, n, put, revision).await?;
    let (_, got) = run.ask_all(connections, n, with(name, get), |_| Some(())).await?;
    Ok([created, updated, got])
}

fn with(
    name: impl Fn(usize) -> String + Send + Sync + 'static,
    make: fn(&str, usize) -> Asked,
) -> impl Fn(usize) -> Asked + Send + Sync + 'static {
    move |number| make(&name(number), number)
}

pub(super) fn create(name: &str, number: usize) -> Asked {
    Asked::post(collection(number), Objects::default().config_map(name, None, 0))
}

/// Conditional on the revision, like the update of an operator that read the object before.
pub(super) fn update(name: &str, number: usize, revision: &str) -> Asked {
    let body = Objects::default().config_map(name, Some(revision), 1);
    Asked::put(format!("{}/{name}", collection(number)), body)
}

pub(super) fn get(name: &str, number: usize) -> Asked {
    Asked::get(format!("{}/{name}", collection(number)))
}

pub(super) fn revision(answer: &Bytes) -> Option<String> {
    string(answer, "resourceVersion").map(str::to_owned)
}

fn collection(number: usize) -> String {
    format!("/api/v1/namespaces/{}/configmaps", namespace(number))
}

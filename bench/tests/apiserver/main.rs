//! Small runs of the `apiserver-…` scenarios from the command line, without a peer: output and exit status. The values
//! are not checked.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bowline-bench")).args(arguments).output().expect("it can be started")
}

/// Variants and metrics of the lines that a scenario prints.
fn rows(arguments: &[&str]) -> BTreeSet<String> {
    let output = bench(&[arguments, &["--pairs", "1", "--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it is text");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("each line is JSON"));
    lines
        .map(|line| {
            assert_eq!((&line["scenario"], &line["subject"]), (&arguments[0].into(), &"bowline".into()));
            assert_eq!(line["n"], line["runs"].as_array().map_or(0, Vec::len));
            assert!(line["value"].is_number() && line["unit"].is_string(), "{line}");
            let against = line["against"].as_str().map(|against| format!(" against {against}"));
            let [variant, metric] = ["variant", "metric"].map(|key| line[key].as_str().unwrap_or("none"));
            format!("{variant}{}: {metric}", against.unwrap_or_default())
        })
        .collect()
}

fn set(rows: &[&str]) -> BTreeSet<String> {
    rows.iter().map(|row| (*row).to_owned()).collect()
}

#[test]
fn writes_are_told_by_verb_and_connections() {
    let rows = rows(&["apiserver-write", "--n", "20"]);
    let mut expected = BTreeSet::new();
    for verb in ["create", "update", "get"] {
        for connections in [16, 64] {
            for metric in ["cpu_us_per_request", "requests_per_s"] {
                expected.insert(format!("{verb} connections={connections} n=20: {metric}"));
            }
        }
        expected.insert(format!("{verb} in-process n=20 against {verb} connections=16 n=20: requests_per_s"));
    }
    assert_eq!(rows, expected);
}

#[test]
fn lists_are_told_whole_and_paged() {
    let expected = [
        "both n=20: rss_settled_mib",
        "both n=20: rss_peak_mib",
        "configmaps whole n=20: cpu_s",
        "configmaps whole n=20: wall_s",
        "configmaps paged n=20: cpu_s",
        "configmaps paged n=20: wall_s",
        "pods whole n=20: cpu_s",
        "pods whole n=20: wall_s",
        "pods paged n=20: cpu_s",
        "pods paged n=20: wall_s",
    ];
    assert_eq!(rows(&["apiserver-list", "--n", "20"]), set(&expected));
}

#[test]
fn events_are_told_by_watchers_and_percentile() {
    let expected = [
        "watchers=1 p50 n=5: event_ms",
        "watchers=1 p90 n=5: event_ms",
        "watchers=100 p50 n=5: event_ms",
        "watchers=100 p90 n=5: event_ms",
        "watchers=100 http2 p50 n=5: event_ms",
        "watchers=100 http2 p90 n=5: event_ms",
        "watchers=100 bare p50 n=5 against watchers=100 p50 n=5: event_ms",
        "watchers=100 bare p90 n=5 against watchers=100 p90 n=5: event_ms",
    ];
    assert_eq!(rows(&["apiserver-watch", "--n", "5"]), set(&expected));
}

#[test]
fn a_start_is_told_on_a_socket_and_in_process() {
    // The scenario itself would first build a program.
    let program = env!("CARGO_BIN_EXE_bowline-bench");
    let load = ["apiserver-load", "--scenario", "start", "--maker", "bowline", "--n", "1"];
    let output = bench(&[&load[..], &["--dev-program", program]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let measured: Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys: BTreeSet<_> = measured.as_object().unwrap().keys().cloned().collect();
    let expected =
        ["socket: ready_ms", "socket: rss_idle_mib", "in-process: ready_ms", "in-process dev: ready_ms"];
    assert_eq!(keys, set(&expected));
}

#[test]
fn a_server_that_cannot_be_started_fails_the_run() {
    let load = ["apiserver-load", "--scenario", "watch", "--maker", "kube-apiserver", "--n", "1"];
    let output = bench(&[&load[..], &["--programs", "/nonexistent"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("/nonexistent/etcd"), "{error}");
}

#[test]
fn another_peer_is_refused() {
    let output = bench(&["apiserver-write", "--peer", "go"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(error, "error: apiserver-write has no subject for the peer go; it has: kube-apiserver\n");
}

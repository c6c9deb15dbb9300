//! Small runs of the reconciler scenarios from the command line, on the replay server: they report the expected
//! metrics. The values are not checked.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bowline-bench")).args(arguments).output().expect("it can be started")
}

/// Subject, variant and metric of each line that a scenario prints.
fn rows(arguments: &[&str]) -> Vec<[String; 3]> {
    let output = bench(&[arguments, &["--pairs", "1", "--json", "--peer", "kube-rs"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it is text");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("each line is JSON"));
    lines
        .map(|line| {
            assert_eq!(line["scenario"], arguments[0]);
            assert!(line["value"].as_f64().is_some_and(|value| value > 0.0), "{line}");
            ["subject", "variant", "metric"].map(|key| line[key].as_str().unwrap_or("none").to_owned())
        })
        .collect()
}

fn both(rows: impl IntoIterator<Item = [String; 2]>) -> Vec<[String; 3]> {
    let subjects = ["bowline", "kube-rs"];
    rows.into_iter()
        .flat_map(|[variant, metric]| {
            subjects.map(|subject| [subject.to_owned(), variant.clone(), metric.clone()])
        })
        .collect()
}

#[test]
fn reconciles_are_counted_with_one_worker_and_with_eight() {
    let variants = [1, 8].map(|workers| format!("workers={workers} n=1000"));
    let expected = variants
        .iter()
        .flat_map(|variant| ["reconciles_per_s", "cpu_s"].map(|metric| [variant.clone(), metric.to_owned()]));
    assert_eq!(rows(&["reconcile-throughput", "--n", "1000"]), both(expected));
}

#[test]
fn updates_are_timed_when_they_are_few_and_when_they_are_many() {
    let modes = ["idle rate=200", "busy rate=2000"].into_iter();
    let expected = modes.flat_map(|mode| {
        ["p50", "p90"].map(|percentile| [format!("{mode} {percentile} n=100"), "latency_ms".to_owned()])
    });
    assert_eq!(rows(&["reconcile-latency", "--n", "100"]), both(expected));
}

#[test]
fn every_object_is_reconciled_as_often() {
    let output = bench(&["reconcile-throughput", "--n", "1001"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("must be a multiple of 500"), "{error}");
}

#[test]
fn another_peer_is_refused() {
    for scenario in ["reconcile-throughput", "reconcile-latency"] {
        let output = bench(&[scenario, "--peer", "kube-apiserver"]);
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected =
            format!("error: {scenario} has no subject for the peer kube-apiserver; it has: go, kube-rs\n");
        assert_eq!(error, expected);
    }
}

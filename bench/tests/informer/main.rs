//! Small runs of the informer scenarios from the command line, on the replay server: they report the expected metrics.
//! The values are not checked.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::NamedTempFile;

const PROGRAM: &str = env!("CARGO_BIN_EXE_bowline-bench");

/// The subjects in this program.
const MAKERS: [&str; 2] = ["bowline", "kube-rs"];

/// A replay server of 300 widgets, and the file with its endpoint.
struct Replay {
    child: Child,
    file: NamedTempFile,
}

impl Replay {
    fn start() -> Self {
        let mut child = Command::new(PROGRAM)
            .args(["replay-server", "--n", "300"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be started");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it tells where it is");
        let mut file = NamedTempFile::new().expect("there is a directory for such files");
        file.write_all(line.as_bytes()).expect("it can be written");
        Self { child, file }
    }

    fn run(&self, maker: &str, task: &str, more: &[&str]) -> Output {
        let endpoint = self.file.path().to_str().expect("the path is text");
        let arguments =
            ["informer-subject", "--maker", maker, "--endpoint", endpoint, "--task", task, "--n", "300"];
        Command::new(PROGRAM).args(arguments).args(more).output().expect("it can be started")
    }

    fn measured(&self, maker: &str, task: &str, more: &[&str]) -> BTreeMap<String, f64> {
        let output = self.run(maker, task, more);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("it prints an object of numbers")
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        // It ends with its stdin.
        drop(self.child.stdin.take());
        assert!(self.child.wait().is_ok_and(|status| status.success()));
    }
}

#[test]
fn handlers_see_every_update_and_one_server_serves_run_after_run() {
    let replay = Replay::start();
    for maker in MAKERS {
        let measured = replay.measured(maker, "events", &["--updates", "3000"]);
        let names: Vec<_> = measured.keys().map(String::as_str).collect();
        assert_eq!(names, ["callbacks", "cpu_s", "events_per_s", "rss_peak_mib", "rss_settled_mib"]);
        assert!((measured["callbacks"] - 9000.0).abs() < 0.5, "{measured:?}");
    }
}

#[test]
fn objects_are_read_by_key_and_by_group_while_updates_come() {
    let replay = Replay::start();
    for (maker, task) in MAKERS.iter().flat_map(|maker| [(maker, "get"), (maker, "index")]) {
        let measured = replay.measured(maker, task, &["--milliseconds", "300"]);
        assert!(measured["reads_per_s"] > 0.0, "{maker} {task}");
    }
}

#[test]
fn a_scenario_is_told_by_variant_and_metric() {
    let arguments = ["cache-read", "--n", "300", "--pairs", "1", "--json", "--peer", "kube-rs"];
    let output = Command::new(PROGRAM).args(arguments).output().expect("it can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it is text");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("each line is JSON"));
    let rows: Vec<_> = lines
        .map(|line| {
            ["subject", "variant", "metric"].map(|key| line[key].as_str().unwrap_or("none").to_owned())
        })
        .collect();
    let expected = ["get readers=2 n=300", "index of=100 readers=2 n=300"]
        .iter()
        .flat_map(|variant| MAKERS.map(|maker| [maker, variant, "reads_per_s"].map(str::to_owned)));
    assert_eq!(rows, expected.collect::<Vec<_>>());
}

#[test]
fn a_group_of_another_size_fails_the_run() {
    let replay = Replay::start();
    for maker in MAKERS {
        let output = replay.run(maker, "index", &["--milliseconds", "100", "--group", "99"]);
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains("something was not found"), "{error}");
    }
}

#[test]
fn the_ceiling_of_the_server_is_told_in_updates() {
    let output = Command::new(PROGRAM).args(["replay-ceiling", "--n", "300"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("3000 updates in "), "{text}");
}

#[test]
fn another_peer_is_refused() {
    for scenario in ["informer-sync", "informer-events", "cache-read"] {
        let output = Command::new(PROGRAM).args([scenario, "--peer", "kube-apiserver"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected =
            format!("error: {scenario} has no subject for the peer kube-apiserver; it has: go, kube-rs\n");
        assert_eq!(error, expected);
    }
}

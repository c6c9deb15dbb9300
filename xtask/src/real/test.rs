//! `cargo xtask real test`: starts a control plane, runs the tests with two arms against it, and stops it, also when
//! interrupted.

use std::env;
use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitCode, ExitStatus, Stdio};

use bowline_clock::Clock;
use bowline_testing::RealControlPlane;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::build;
use super::error::RealError;
use super::home::Home;

/// Test suites with two arms: the API server, informers, caches, operators, manifests, test environments and the examples.
/// The tests find the plane by [`KUBECONFIG`].
const TESTS: &[&str] = &[
    "test",
    "--no-fail-fast",
    "-p",
    "bowline-apiserver",
    "--test",
    "contract",
    "-p",
    "bowline-cache",
    "-p",
    "bowline-runtime",
    "-p",
    "bowline-manifests",
    "-p",
    "pod-printer",
    "--test",
    "real",
    "-p",
    "bowline-testing",
    "--test",
    "env",
    "--test",
    "failover",
    "-p",
    "sample-controller",
    "--test",
    "operator",
    "-p",
    "greeting",
    "--bin",
    "greeting",
];

/// The variable with the path of the kubeconfig.
const KUBECONFIG: &str = "BOWLINE_REAL_KUBECONFIG";

/// Makes tests with `TestEnv` use that control plane.
const ARM: (&str, &str) = ("BOWLINE_TEST_ARM", "real");

/// The variable with the directory of the programs, for tests that start their own control plane.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

pub(super) async fn run(clock: &Clock, home: &Home, arguments: &[String]) -> Result<ExitCode, RealError> {
    // From here on a signal does not end this process.
    let mut signals = Signals::listen()?;
    let prepared = async {
        let binaries = build::binaries(clock, home).await?;
        let programs = binaries.etcd().with_file_name("");
        let plane = RealControlPlane::builder(clock.clone(), binaries).start().await?;
        Ok::<_, RealError>((plane, programs))
    };
    let (plane, programs) = tokio::select! {
        biased;
        prepared = prepared => prepared?,
        // Dropping the control plane kills its processes.
        signal = signals.next() => return Ok(code_of_signal(signal)),
    };
    eprintln!("real: is ready at {}", plane.server());
    let status = tests(&plane, &programs, arguments, &mut signals).await;
    plane.stop().await?;
    eprintln!("real: stopped");
    status.map(exit_code)
}

async fn tests(
    plane: &RealControlPlane,
    programs: &Path,
    arguments: &[String],
    signals: &mut Signals,
) -> Result<ExitStatus, RealError> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let run = |source| RealError::Run { command: format!("cargo {}", TESTS.join(" ")), source };
    let mut results = Results::default();
    let mut command = Command::new(cargo);
    // Variables that cargo set for this package: with them, ring and other crates would be compiled again.
    for (name, _) in env::vars_os() {
        let is_of_package =
            |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
    let mut child = command
        .args(TESTS)
        .args(arguments)
        .env(KUBECONFIG, plane.kubeconfig())
        .env(ARM.0, ARM.1)
        .env(ASSETS, programs)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // A separate process group, so that a signal reaches cargo and its tests once.
        .process_group(0)
        .spawn()
        .map_err(run)?;
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut is_told = true;
    loop {
        tokio::select! {
            biased;
            line = lines.next_line(), if is_told => match line.map_err(run)? {
                Some(line) => {
                    results.read(&line);
                    println!("{line}");
                }
                None => is_told = false,
            },
            status = child.wait(), if !is_told => {
                eprintln!("real: {results}");
                return status.map_err(run);
            }
            signal = signals.next() => pass_on(&child, signal),
        }
    }
}

/// Numbers of passed tests and suites, from the output of the suites.
#[derive(Debug, Default, PartialEq, Eq)]
struct Results {
    suites: usize,
    passed: usize,
    failed: usize,
}

impl Results {
    /// Reads one line of the tests' output.
    fn read(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        let count = |what: &str| {
            let count = counts.split("; ").find_map(|count| count.strip_suffix(what));
            count.and_then(|count| count.rsplit(' ').next()?.parse::<usize>().ok()).unwrap_or(0)
        };
        self.suites += 1;
        self.passed += count(" passed");
        self.failed += count(" failed");
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { suites, passed, failed } = self;
        write!(f, "{} tests in {suites} suites ran, {passed} passed, {failed} failed", passed + failed)
    }
}

fn pass_on(child: &Child, signal: Signal) {
    // A process without an ID has ended.
    let group = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    if let Some(group) = group
        && let Err(error) = kill_process_group(group, signal)
    {
        eprintln!("real: cannot interrupt the tests: {error}");
    }
}

/// Termination signals.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> Result<Self, RealError> {
        let listen = |kind| signal(kind).map_err(RealError::Signals);
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.hangup.recv() => Signal::HUP,
        }
    }
}

/// The exit code as a shell reports it.
fn exit_code(status: ExitStatus) -> ExitCode {
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        (None, Some(signal)) => code_of_number(signal),
        (None, None) => ExitCode::FAILURE,
    }
}

fn code_of_signal(signal: Signal) -> ExitCode {
    code_of_number(signal.as_raw())
}

fn code_of_number(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_suites_say_of_themselves_is_added_up() {
        let mut results = Results::default();
        for line in [
            "running 3 tests",
            "test a ... ok",
            "test result: FAILED. 17 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.82s",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.10s",
        ] {
            results.read(line);
        }
        assert_eq!(results, Results { suites: 2, passed: 20, failed: 2 });
        assert_eq!(results.to_string(), "22 tests in 2 suites ran, 20 passed, 2 failed");
    }
}

//! Programs and conditions that are waited for, with a limit.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use bowline::prelude::Clock;

use crate::{set_environment, text};

/// Interval between two looks at a condition.
const INTERVAL: Duration = Duration::from_millis(100);

/// The tool, in the folder of a project whose dependencies are there.
pub(crate) fn tool(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.args(arguments).current_dir(folder);
    set_environment(&mut command, true);
    command
}

/// Runs a program to its end.
pub(crate) async fn run(command: Command, limit: Duration) -> Output {
    let shown = format!("{command:?}");
    let mut command = tokio::process::Command::from(command);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = Clock::real().timeout(limit, command.output()).await;
    let output = output.unwrap_or_else(|_| panic!("{shown} has not ended after {limit:?}"));
    output.unwrap_or_else(|error| panic!("{shown} does not start: {error}"))
}

/// Runs a program that must succeed. Returns its standard output.
pub(crate) async fn succeed(command: Command, limit: Duration) -> String {
    let shown = format!("{command:?}");
    let output = run(command, limit).await;
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{shown} failed ({}):\n{stdout}{stderr}", output.status);
    stdout
}

/// The first value that a probe returns. None after the limit.
pub(crate) async fn eventually<T>(limit: Duration, mut probe: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let clock = Clock::real();
    let end = clock.now() + limit;
    loop {
        if let Some(found) = probe().await {
            return Some(found);
        }
        if clock.now() >= end {
            return None;
        }
        clock.sleep(INTERVAL).await;
    }
}

/// Whether a program is on the `PATH`. Without it, a line says what is skipped.
pub(crate) async fn has(program: &str, argument: &str, skipped: &str) -> bool {
    let mut command = tokio::process::Command::new(program);
    command.args(argument.split(' ')).stdin(Stdio::null()).kill_on_drop(true);
    let output = Clock::real().timeout(Duration::from_secs(30), command.output()).await;
    let is_there = matches!(output, Ok(Ok(output)) if output.status.success());
    if !is_there {
        println!("== skipped: {skipped}, because there is no {program}");
    }
    is_there
}

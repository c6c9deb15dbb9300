//! `apiserver-start`: time until a server responds, and its memory before the first request.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use super::load::{Failure, Run, Values};
use super::{Maker, READY_MS, RSS_IDLE_MIB, row, row_against};
use crate::report::Row;
use crate::subject::Measured;

const SOCKET: &str = "socket";
const IN_PROCESS: &str = "in-process";
const IN_PROCESS_DEV: &str = "in-process dev";

pub(super) fn rows() -> Vec<Row> {
    vec![
        row(SOCKET, READY_MS, Some(0.03)),
        row(SOCKET, RSS_IDLE_MIB, Some(0.12)),
        row_against(IN_PROCESS, SOCKET, READY_MS, Some(0.005)),
        row_against(IN_PROCESS_DEV, SOCKET, READY_MS, Some(0.005)),
    ]
}

pub(super) async fn run(run: &Run, dev_program: Option<&Path>) -> Result<Values, Failure> {
    let mut values = Values::default();
    values.put(SOCKET, READY_MS, run.server.ready.as_secs_f64() * 1e3);
    values.put(SOCKET, RSS_IDLE_MIB, run.server.settled_mib().await?);
    if run.maker == Maker::Bowline {
        let dev_program = dev_program.ok_or("our own subject needs --dev-program")?;
        values.put(IN_PROCESS, READY_MS, in_process(&std::env::current_exe()?).await?);
        values.put(IN_PROCESS_DEV, READY_MS, in_process(dev_program).await?);
    }
    Ok(values)
}

/// Builds a server in a new process without warm caches, and returns the milliseconds until its first response.
async fn in_process(program: &Path) -> Result<f64, Failure> {
    let measured = in_process_task(program, "start", 1).await?;
    Ok(*measured.get(READY_MS.name).ok_or("the start in process was not measured")?)
}

/// Runs a task of [`subject`](super::subject) in a new process.
pub(super) async fn in_process_task(program: &Path, task: &str, n: usize) -> Result<Measured, Failure> {
    let output = Command::new(program)
        .args(["apiserver-subject", "--task", task, "--n", &n.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await?;
    if !output.status.success() {
        return Err(format!("{} in process: {}", program.display(), output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

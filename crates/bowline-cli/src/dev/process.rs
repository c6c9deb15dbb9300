//! The operator as a process: its start, the lines that it prints, its stop.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline::clock::{Clock, Scope};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::program::Program;

/// Time for a graceful stop, after which the process is killed. Above the default of `--graceful-shutdown-timeout`.
const STOP_TIMEOUT: Duration = Duration::from_secs(40);
/// Time for a process to end by itself after a signal of the terminal.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(2);
/// Lines that wait to be printed, for example during a build. Further ones are left out: the operator must not wait for them.
const WAITING_LINES: usize = 1024;
/// Longest line that is printed whole.
const LONGEST_LINE: usize = 4096;

/// A running operator. It is killed when this is dropped.
pub(super) struct Process {
    child: Child,
    lines: mpsc::Receiver<String>,
    /// Number of lines that were left out since the last one.
    omitted: Arc<AtomicUsize>,
    /// Tasks that read its output.
    _scope: Scope,
}

/// What a process did.
#[derive(Debug)]
pub(super) enum ProcessEvent {
    Line(String),
    Ended(ExitStatus),
}

impl Process {
    pub(super) fn start(program: &Program, folder: &Path, arguments: &[OsString]) -> io::Result<Self> {
        let mut command = Command::new(program.path());
        command.args(arguments).current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (sender, lines) = mpsc::channel(WAITING_LINES);
        let omitted = Arc::new(AtomicUsize::new(0));
        let scope = Clock::real().scope("output of the operator");
        if let Some(output) = child.stdout.take() {
            scope.spawn("stdout", forward(output, sender.clone(), omitted.clone()));
        }
        if let Some(errors) = child.stderr.take() {
            scope.spawn("stderr", forward(errors, sender, omitted.clone()));
        }
        Ok(Self { child, lines, omitted, _scope: scope })
    }

    /// The next line, or the end after the last line. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> io::Result<ProcessEvent> {
        if let Some(line) = self.lines.recv().await {
            return Ok(ProcessEvent::Line(match self.omitted.swap(0, Ordering::Relaxed) {
                0 => line,
                omitted => format!("{line}\n… {omitted} lines were left out"),
            }));
        }
        Ok(ProcessEvent::Ended(self.child.wait().await?))
    }

    /// Stops it gracefully, and returns the lines that it still printed.
    pub(super) async fn stop(mut self) -> Vec<String> {
        let mut rest = Vec::new();
        if self.terminate() {
            // It is killed when it is dropped.
            self.wait(STOP_TIMEOUT, &mut rest).await;
        }
        rest
    }

    /// As [`stop`](Self::stop), after a signal that a terminal has sent to this process too: a second one would end it at once.
    pub(super) async fn stop_after_signal(mut self) -> Vec<String> {
        let mut rest = Vec::new();
        if !self.wait(SIGNAL_TIMEOUT, &mut rest).await {
            rest.extend(self.stop().await);
        }
        rest
    }

    /// Waits for its end. Returns whether it has ended.
    async fn wait(&mut self, limit: Duration, rest: &mut Vec<String>) -> bool {
        let end = async {
            while let Ok(ProcessEvent::Line(line)) = self.next().await {
                rest.push(line);
            }
        };
        Clock::real().timeout(limit, end).await.is_ok()
    }

    /// Asks the process to stop. Returns whether it was asked.
    fn terminate(&self) -> bool {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        id.is_some_and(|id| kill_process(id, Signal::TERM).is_ok())
    }
}

/// Sends the lines of an output, until its end.
async fn forward(output: impl AsyncRead + Unpin, lines: mpsc::Sender<String>, omitted: Arc<AtomicUsize>) {
    let mut output = BufReader::new(output).lines();
    while let Ok(Some(mut line)) = output.next_line().await {
        if line.len() > LONGEST_LINE {
            line.truncate(line.floor_char_boundary(LONGEST_LINE));
            line.push('…');
        }
        match lines.try_send(line) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => _ = omitted.fetch_add(1, Ordering::Relaxed),
            Err(TrySendError::Closed(_)) => return,
        }
    }
}

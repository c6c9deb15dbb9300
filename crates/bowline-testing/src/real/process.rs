//! One process and its log. Owns its start, the detection of its end, and its stop.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use bowline_clock::Clock;
use rustix::process::{Pid, Signal, kill_process};

const LOG_BYTES: u64 = 16 * 1024;
const LOG_LINES: usize = 20;

/// Interval between two checks of a process.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// Waits for a line, then becomes the program with the same process id. Ends if its parent ends before.
const GATE: &str = r#"read -r go && exec "$@" </dev/null"#;

/// A child process. Drop kills it and waits for it.
#[derive(Debug)]
pub(super) struct Process {
    name: &'static str,
    /// No other code waits for it, so that its process id is not reused before its end is seen here.
    child: Child,
    log: PathBuf,
    detached: bool,
}

impl Process {
    /// Prepares to run `program`, with its output in a log that only the user can read.
    ///
    /// The process has its id, but does nothing before [`run`](Self::run). The sentinel can watch it first, so that it never
    /// outlives this process.
    pub(super) fn prepare(
        name: &'static str,
        program: &Path,
        arguments: &[String],
        log: PathBuf,
    ) -> io::Result<Self> {
        // The shell would report a missing program only in the log.
        std::fs::metadata(program)?;
        let output = OpenOptions::new().append(true).create(true).mode(0o600).open(&log)?;
        let child = Command::new("/bin/sh")
            .args(["-c", GATE, "sh"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            // Ctrl-C in the terminal ends the parent, which stops this process in order.
            .process_group(0)
            .spawn()?;
        Ok(Self { name, child, log, detached: false })
    }

    /// Runs the program.
    pub(super) fn run(&mut self) -> io::Result<()> {
        let mut gate = self.child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        gate.write_all(b"go\n")
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// The exit status, once it has ended.
    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// The last lines of its log, or the reason why there are none.
    pub(super) fn log_tail(&self) -> String {
        match tail(&self.log) {
            Ok(text) if text.is_empty() => "(the log is empty)".to_owned(),
            Ok(text) => text,
            Err(error) => format!("(cannot read {}: {error})", self.log.display()),
        }
    }

    /// Sends SIGTERM, waits up to `limit`, then sends SIGKILL. Does nothing if it has ended.
    pub(super) async fn stop(&mut self, clock: &Clock, limit: Duration) -> io::Result<()> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let deadline = clock.now() + limit;
        while self.ended()?.is_none() {
            if clock.now() >= deadline {
                self.child.kill()?;
                self.child.wait()?;
                break;
            }
            clock.sleep(LOOK).await;
        }
        Ok(())
    }

    /// Lets the process outlive this value.
    pub(super) fn detach(mut self) {
        self.detached = true;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.detached {
            // Either fails only if it has ended.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn tail(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.trim_end().lines().collect();
    Ok(lines[lines.len().saturating_sub(LOG_LINES)..].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    const LIMIT: Duration = Duration::from_secs(30);

    fn shell(script: &str, directory: &Path) -> Process {
        let arguments = ["-c", script].map(str::to_owned);
        let program = Path::new("/bin/sh");
        let mut process =
            Process::prepare("stand-in", program, &arguments, directory.join("log")).expect("a shell");
        process.run().expect("it waits");
        process
    }

    async fn logged(process: &Process, text: &str) {
        let clock = Clock::real();
        let seen = async {
            while !process.log_tail().contains(text) {
                clock.sleep(LOOK).await;
            }
        };
        clock.timeout(LIMIT, seen).await.expect("the stand-in writes its log");
    }

    #[tokio::test]
    async fn a_process_that_heeds_sigterm_is_not_killed() {
        let directory = tempfile::tempdir().unwrap();
        let script = "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done";
        let mut process = shell(script, directory.path());
        logged(&process, "up").await;
        process.stop(&Clock::real(), LIMIT).await.unwrap();
        assert_eq!(process.ended().unwrap().unwrap().code(), Some(7));
        assert_eq!(process.log_tail(), "up\nbye");
    }

    #[tokio::test]
    async fn a_process_that_ignores_sigterm_is_killed_after_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let mut process = shell("trap '' TERM; echo up; while :; do sleep 0.01; done", directory.path());
        logged(&process, "up").await;
        process.stop(&Clock::real(), Duration::from_millis(1)).await.unwrap();
        assert_eq!(process.ended().unwrap().unwrap().signal(), Some(9));
    }

    #[test]
    fn a_process_whose_parent_ends_before_it_runs_ends() {
        let directory = tempfile::tempdir().unwrap();
        let (program, log) = (Path::new("/bin/echo"), directory.path().join("log"));
        let mut process = Process::prepare("stand-in", program, &["ran".to_owned()], log).unwrap();
        // The kernel does this when this process ends.
        drop(process.child.stdin.take());
        assert!(!process.child.wait().unwrap().success());
        assert_eq!(process.log_tail(), "(the log is empty)");
    }

    #[test]
    fn a_long_log_is_shown_by_its_last_lines() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let lines: Vec<_> = (0..10_000).map(|line| format!("line {line}")).collect();
        std::fs::write(&log, lines.join("\n")).unwrap();
        let tail = tail(&log).unwrap();
        assert_eq!(tail.lines().count(), LOG_LINES);
        assert_eq!(tail.lines().last(), Some("line 9999"));
    }
}

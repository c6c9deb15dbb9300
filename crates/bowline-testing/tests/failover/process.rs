//! A replica as a process: start, stop, kill, wait, and cleanup.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use bowline_clock::Clock;
use rustix::process::{Pid, Signal, kill_process};

use crate::proxy::Proxy;
use crate::replica::{Orders, REPLICA};

/// The test that becomes a replica.
const TEST: &str = "the_process_of_a_replica";

/// Kills a process when this one ends, in any way: also a frozen one, which cannot end by itself.
const WATCHDOG: &str = r#"read -r done || kill -KILL "$0""#;

/// Polling interval for conditions that have no notification.
const LOOK: Duration = Duration::from_millis(5);

/// Limit far above the duration of anything that a process does by itself.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A process that runs a replica. Drop kills it and waits for it.
pub(crate) struct Replica {
    pub(crate) orders: Orders,
    pub(crate) proxy: Proxy,
    clock: Clock,
    child: Child,
    watchdog: Child,
    log: PathBuf,
}

impl Replica {
    /// Starts one that connects through a proxy.
    pub(crate) fn start(clock: &Clock, orders: Orders, proxy: Proxy, log: PathBuf) -> io::Result<Self> {
        let output = File::create(&log)?;
        let child = Command::new(std::env::current_exe()?)
            .args(["--exact", TEST, "--nocapture"])
            .env(REPLICA, serde_json::to_string(&orders)?)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let watchdog = Command::new("/bin/sh")
            .args(["-c", WATCHDOG])
            .arg(child.id().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { orders, proxy, clock: clock.clone(), child, watchdog, log })
    }

    pub(crate) fn identity(&self) -> &str {
        &self.orders.identity
    }

    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits until it has ended.
    pub(crate) async fn end(&mut self) -> Result<ExitStatus, String> {
        let clock = self.clock.clone();
        let ended = async {
            loop {
                if let Some(status) = self.ended()? {
                    return Ok::<_, io::Error>(status);
                }
                clock.sleep(LOOK).await;
            }
        };
        match clock.timeout(PATIENCE, ended).await {
            Ok(ended) => ended.map_err(|error| error.to_string()),
            Err(_) => Err(format!("{} does not end\n{}", self.identity(), self.log())),
        }
    }

    /// Waits until it is stopped by a signal.
    pub(crate) async fn stopped(&self) -> Result<(), String> {
        let stat = format!("/proc/{}/stat", self.child.id());
        let stopped = async {
            loop {
                let text = std::fs::read_to_string(&stat).unwrap_or_default();
                if text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't'])) {
                    return;
                }
                self.clock.sleep(LOOK).await;
            }
        };
        let stopped = self.clock.timeout(PATIENCE, stopped).await;
        stopped.map_err(|_| format!("{} does not stop\n{}", self.identity(), self.log()))
    }

    /// Asserts that it ended because it lost the lease, with a log line.
    pub(crate) fn lost(&self, status: ExitStatus) -> Result<(), String> {
        let log = self.log();
        if status.code() == Some(1)
            && log.lines().any(|line| line.starts_with("error: ") && line.contains("leadership lost: "))
        {
            return Ok(());
        }
        Err(format!("{} should have lost its lease, but ended with {status}\n{log}", self.identity()))
    }

    /// Asserts that it ended without an error.
    pub(crate) fn finished(&self, status: ExitStatus) -> Result<(), String> {
        if status.success() {
            return Ok(());
        }
        Err(format!("{} was asked to end, and ended with {status}\n{}", self.identity(), self.log()))
    }

    /// Asserts that it was killed.
    pub(crate) fn killed(&self, status: ExitStatus) -> Result<(), String> {
        if status.signal() == Some(9) {
            return Ok(());
        }
        Err(format!("{} was killed, and ended with {status}\n{}", self.identity(), self.log()))
    }

    /// The last lines of its output.
    pub(crate) fn log(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(20)..];
        format!("--- the log of {} ends with:\n{}\n---", self.identity(), last.join("\n"))
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // Each fails only if the process has ended; there is nothing left to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(stdin) = &mut self.watchdog.stdin {
            let _ = stdin.write_all(b"done\n");
        }
        let _ = self.watchdog.wait();
    }
}

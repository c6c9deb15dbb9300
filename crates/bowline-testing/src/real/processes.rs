//! The processes of one control plane, in the order of their start. They end in the reverse order, and with this process.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use bowline_clock::Clock;

use super::process::Process;
use super::sentinel::Sentinel;

/// The processes; all are killed when this is dropped.
#[derive(Debug)]
pub(super) struct Processes {
    /// Before the sentinel, because fields are dropped in this order.
    running: Vec<Process>,
    sentinel: Sentinel,
}

/// A process that ended by itself.
pub(super) struct Ended {
    pub(super) name: &'static str,
    pub(super) status: ExitStatus,
    pub(super) log_tail: String,
}

impl Processes {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { running: Vec::new(), sentinel: Sentinel::start()? })
    }

    pub(super) fn start(
        &mut self,
        name: &'static str,
        program: &Path,
        arguments: &[String],
        log: PathBuf,
    ) -> io::Result<()> {
        let mut process = Process::prepare(name, program, arguments, log)?;
        self.sentinel.watch(process.pid())?;
        process.run()?;
        self.running.push(process);
        Ok(())
    }

    /// Kills a process and starts it again, at its position in the order.
    pub(super) fn restart(
        &mut self,
        name: &'static str,
        program: &Path,
        arguments: &[String],
        log: PathBuf,
    ) -> io::Result<()> {
        let place = self.running.iter().position(|process| process.name() == name);
        if let Some(place) = place {
            let pid = self.running[place].pid();
            drop(self.running.remove(place));
            // A sentinel that has ended kills no process.
            let _ = self.sentinel.forget(pid);
        }
        self.start(name, program, arguments, log)?;
        if let Some(place) = place {
            self.running[place..].rotate_right(1);
        }
        Ok(())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Process> {
        self.running.iter()
    }

    /// The last lines of a process's log; empty if there is no such process.
    pub(super) fn log_tail(&self, name: &str) -> String {
        self.iter().find(|process| process.name() == name).map(Process::log_tail).unwrap_or_default()
    }

    /// The first process that has ended, if one has.
    pub(super) fn ended(&mut self) -> io::Result<Option<Ended>> {
        for process in &mut self.running {
            if let Some(status) = process.ended()? {
                let (name, log_tail) = (process.name(), process.log_tail());
                return Ok(Some(Ended { name, status, log_tail }));
            }
        }
        Ok(None)
    }

    /// Stops one after the other, each within `limit`. If one cannot be stopped, the remaining ones are killed.
    ///
    /// The API server ends before etcd: without its etcd it ignores SIGTERM.
    pub(super) async fn stop(
        mut self,
        clock: &Clock,
        limit: Duration,
    ) -> Result<(), (&'static str, io::Error)> {
        while let Some(mut process) = self.running.pop() {
            process.stop(clock, limit).await.map_err(|error| (process.name(), error))?;
            // A sentinel that has ended kills no process.
            let _ = self.sentinel.forget(process.pid());
        }
        Ok(())
    }

    /// Lets the processes outlive this one.
    pub(super) fn detach(self) {
        self.running.into_iter().for_each(Process::detach);
    }
}

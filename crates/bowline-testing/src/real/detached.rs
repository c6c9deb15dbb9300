//! A control plane that outlives the process that started it. Owns the record that a later process needs to stop it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_clock::Clock;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::directory::write_private;
use super::file;
use super::identity::Identity;
use super::process::LOOK;

const RECORD: &str = "plane.json";

/// Time for a killed process to end.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// A plane that was [detached](crate::RealControlPlane::detach), found by the record in its directory.
///
/// The record has the id, start time and program of each process. A process that has got such an id later is left alone.
#[derive(Debug, Serialize, Deserialize)]
pub struct DetachedControlPlane {
    #[serde(skip)]
    directory: PathBuf,
    server: String,
    /// Processes in the order of their start.
    processes: Vec<Recorded>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Recorded {
    name: String,
    #[serde(flatten)]
    identity: Identity,
}

impl Recorded {
    pub(super) fn new(name: &str, identity: Identity) -> Self {
        Self { name: name.to_owned(), identity }
    }
}

impl DetachedControlPlane {
    pub(super) fn record(directory: &Path, server: String, processes: Vec<Recorded>) -> io::Result<Self> {
        let plane = Self { directory: directory.to_owned(), server, processes };
        write_private(&directory.join(RECORD), &format!("{}\n", serde_json::to_string_pretty(&plane)?))?;
        Ok(plane)
    }

    /// The plane that was detached with this directory. None if the directory has no record.
    ///
    /// # Errors
    /// [`DetachedError::Record`] if the record cannot be read.
    pub fn load(directory: impl AsRef<Path>) -> Result<Option<Self>, DetachedError> {
        let directory = directory.as_ref();
        let path = directory.join(RECORD);
        let read = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => Err(error),
        };
        match read {
            Ok(plane) => Ok(Some(Self { directory: directory.to_owned(), ..plane })),
            Err(source) => Err(DetachedError::Record { path, source }),
        }
    }

    /// URL of the API server: `https://127.0.0.1:PORT`.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join(file::KUBECONFIG)
    }

    /// The directory of the plane.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The programs in the order of their start.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.processes.iter().map(|process| process.name.as_str())
    }

    /// The programs that no longer run, after a crash or a reboot.
    ///
    /// # Errors
    /// [`DetachedError::Process`] if the operating system does not report it.
    pub fn missing(&self) -> Result<Vec<&str>, DetachedError> {
        let mut missing = Vec::new();
        for Recorded { name, identity } in &self.processes {
            if !identity.is_running().map_err(|source| DetachedError::process(name, source))? {
                missing.push(name.as_str());
            }
        }
        Ok(missing)
    }

    /// Stops the processes that still run, in the reverse order of their start: sends SIGTERM, and SIGKILL to one that does not
    /// end within `limit`. Then removes the record; the rest of the directory stays.
    ///
    /// # Errors
    /// [`DetachedError`] if a process cannot be stopped or the record cannot be removed. The record stays then.
    pub async fn stop(self, clock: &Clock, limit: Duration) -> Result<StopReport, DetachedError> {
        let mut stopped = StopReport { ended: Vec::new(), missing: Vec::new() };
        for Recorded { name, identity } in self.processes.iter().rev() {
            let was_running = stop_process(identity, clock, limit).await;
            let was_running = was_running.map_err(|source| DetachedError::process(name, source))?;
            let list = if was_running { &mut stopped.ended } else { &mut stopped.missing };
            list.push(name.clone());
        }
        let path = self.directory.join(RECORD);
        std::fs::remove_file(&path).map_err(|source| DetachedError::Record { path, source })?;
        Ok(stopped)
    }
}

/// Result of [`DetachedControlPlane::stop`]: names of programs.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StopReport {
    /// Programs that ran and were stopped.
    pub ended: Vec<String>,
    /// Programs that had ended before.
    pub missing: Vec<String>,
}

/// Reason why a detached plane cannot be read or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DetachedError {
    /// The record cannot be read or removed.
    #[error("cannot read or remove the record {}: {source}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A process cannot be checked or stopped.
    #[error("cannot look after {program}: {source}")]
    Process {
        /// The program.
        program: String,
        /// The cause.
        source: io::Error,
    },
}

impl DetachedError {
    fn process(program: &str, source: io::Error) -> Self {
        Self::Process { program: program.to_owned(), source }
    }
}

/// Stops a process, and returns whether it ran.
async fn stop_process(identity: &Identity, clock: &Clock, limit: Duration) -> io::Result<bool> {
    if !identity.signal(Signal::TERM)? {
        return Ok(false);
    }
    if !ended_within(identity, clock, limit).await? {
        identity.signal(Signal::KILL)?;
        if !ended_within(identity, clock, KILL_LIMIT).await? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it was killed, and is still there"));
        }
    }
    Ok(true)
}

async fn ended_within(identity: &Identity, clock: &Clock, limit: Duration) -> io::Result<bool> {
    let deadline = clock.now() + limit;
    while identity.is_running()? {
        if clock.now() >= deadline {
            return Ok(false);
        }
        clock.sleep(LOOK).await;
    }
    Ok(true)
}

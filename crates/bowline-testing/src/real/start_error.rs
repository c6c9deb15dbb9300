//! What can go wrong when a control plane starts.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Why there is no control plane.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The directory cannot be used.
    #[error("cannot use the directory {}: {source}; it must be empty, or not there yet", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write in the directory {}: {source}", directory.display())]
    Write {
        /// The directory.
        directory: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Keys or certificates cannot be made.
    #[error("cannot make the certificates of the control plane: {0}")]
    Credentials(#[from] rcgen::Error),
    /// The API server cannot be asked.
    #[error("cannot set up TLS to ask the API server whether it is ready: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
    /// No port is free.
    #[error("cannot find free ports on 127.0.0.1: {0}")]
    Ports(#[source] io::Error),
    /// A program cannot be started.
    #[error(
        "cannot start {program} from {}: {source}; `cargo xtask real up` builds what is missing", path.display()
    )]
    Spawn {
        /// The program.
        program: &'static str,
        /// Where it was expected.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The operating system does not say whether a process has ended.
    #[error("cannot tell whether the processes run: {0}")]
    Look(#[source] io::Error),
    /// A process ended before all were ready.
    #[error("{program} ended before the control plane was ready ({status}); its log ends with:\n{log_tail}")]
    Exited {
        /// The program.
        program: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The last lines of its log.
        log_tail: String,
    },
    /// The time is over.
    #[error(
        "{program} was not ready within {limit:?}; the last answer to {path}: {said}; its log ends with:\n{log_tail}"
    )]
    NotReady {
        /// The program that was waited for.
        program: &'static str,
        /// How long all of it was given.
        limit: Duration,
        /// What the API server was asked for.
        path: String,
        /// What it said, or why it could not be asked.
        said: String,
        /// The last lines of the program's log.
        log_tail: String,
    },
}

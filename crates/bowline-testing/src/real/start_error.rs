//! Errors of the start of a control plane.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Reason why a control plane did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The directory cannot be used.
    #[error("cannot use the directory {}: {source}; it must be empty or absent", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write to the directory {}: {source}", directory.display())]
    Write {
        /// The directory.
        directory: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Keys or certificates cannot be created.
    #[error("cannot make the certificates of the control plane: {0}")]
    Credentials(#[from] rcgen::Error),
    /// TLS to the API server cannot be set up.
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
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The operating system does not report whether a process has ended.
    #[error("cannot check whether the processes run: {0}")]
    Look(#[source] io::Error),
    /// A process ended before all were ready.
    #[error("{program} ended before the control plane was ready ({status}); its log ends with:\n{log_tail}")]
    Exited {
        /// The program.
        program: &'static str,
        /// Its exit status.
        status: ExitStatus,
        /// The last lines of its log.
        log_tail: String,
    },
    /// A program was not ready in time.
    #[error(
        "{program} was not ready within {limit:?}; the last answer to {path}: {said}; its log ends with:\n{log_tail}"
    )]
    NotReady {
        /// The program.
        program: &'static str,
        /// Time limit of the whole start.
        limit: Duration,
        /// Path of the request to the API server.
        path: String,
        /// The last answer, or the error of the request.
        said: String,
        /// The last lines of the program's log.
        log_tail: String,
    },
}

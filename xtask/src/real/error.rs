//! Errors of `cargo xtask real`, with their exit codes.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

use bowline_testing::{DetachError, DetachedError, StartError, StopError};

use super::go::GoVersion;

/// Exit code for "cannot be done on this machine", as opposed to "failed".
const NO_GO: u8 = 3;

#[derive(Debug, thiserror::Error)]
pub(super) enum RealError {
    #[error(
        "the programs of the real control plane are not built yet, and there is no `go` on the PATH: install Go \
         {needed} or later"
    )]
    NoGo { needed: GoVersion },
    #[error(
        "the programs of the real control plane are not built yet, and this Go is too old: install Go {needed} or \
         later, or let it fetch that itself with GOTOOLCHAIN=auto (it says: {found})"
    )]
    OldGo { needed: GoVersion, found: String },
    #[error("`{command}` failed ({status}){}", if output.is_empty() { String::new() } else { format!(":\n{output}") })]
    Go { command: String, status: ExitStatus, output: String },
    #[error("`{command}` printed unexpected output: {output}")]
    Unexpected { command: String, output: String },
    #[error("cannot run `{command}`: {source}")]
    Run { command: String, source: io::Error },
    #[error("there is neither XDG_CACHE_HOME nor HOME: say with {variable} where the programs go")]
    NoHome { variable: &'static str },
    #[error("cannot use {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("one is running, {0} kube-controller-manager: stop it first with `cargo xtask real down`")]
    Different(&'static str),
    #[error("nothing is running: start it with `cargo xtask real up`")]
    NotRunning,
    #[error("{0} ended by itself: start it all again with `cargo xtask real up`")]
    Missing(String),
    #[error("cannot listen for signals: {0}")]
    Signals(#[source] io::Error),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Stop(#[from] StopError),
    #[error(transparent)]
    Detach(#[from] DetachError),
    #[error(transparent)]
    Detached(#[from] DetachedError),
}

impl RealError {
    /// For errors about a file or a directory.
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        match self {
            Self::NoGo { .. } | Self::OldGo { .. } => ExitCode::from(NO_GO),
            _ => ExitCode::FAILURE,
        }
    }
}

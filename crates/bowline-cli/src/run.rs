//! `bowline run`: builds the operator, and runs it on the cluster of the current context.

use std::io;
use std::process::ExitCode;

use tokio::process::Command;

use crate::arguments::Run;
use crate::cluster::{Cluster, ClusterError};
use crate::program::{Program, ProgramError};
use crate::project::{Project, ProjectError};
use crate::{output, runtime};

/// Why the operator does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
enum RunError {
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("cannot run the operator: {0}")]
    Start(#[source] io::Error),
}

impl RunError {
    /// Advice for the user.
    fn hint(&self) -> Option<String> {
        match self {
            Self::Project(error) => error.hint(),
            Self::Program(error) => error.hint(),
            Self::Cluster(error) => error.hint(),
            Self::Start(_) => None,
        }
    }
}

/// Runs the operator until it ends. Its exit code is that of this command.
pub(crate) fn run(arguments: &Run) -> ExitCode {
    match runtime::block_on(start(arguments)) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => output::fail(&error, error.hint().as_deref()),
        Err(error) => output::fail(&error, None),
    }
}

async fn start(arguments: &Run) -> Result<ExitCode, RunError> {
    let project = Project::find()?;
    // Before the build, which takes longer.
    let cluster = Cluster::find(arguments.context.as_deref()).await?;
    output::note(&format!("context {}, server {}", cluster.context, cluster.server));
    let program = Program::build(&project).await?;
    let mut operator = Command::new(program.path());
    // The context by name: the current one may change before the operator reads it.
    operator.arg(format!("--context={}", cluster.context)).args(project.operator.all_args());
    operator.args(&arguments.args).current_dir(&project.root);
    replace(operator).await
}

/// Becomes the operator, so that signals reach it.
#[cfg(unix)]
#[expect(clippy::unused_async, reason = "it waits on other systems")]
async fn replace(operator: Command) -> Result<ExitCode, RunError> {
    use std::os::unix::process::CommandExt as _;
    Err(RunError::Start(operator.into_std().exec()))
}

#[cfg(not(unix))]
async fn replace(mut operator: Command) -> Result<ExitCode, RunError> {
    let status = operator.status().await.map_err(RunError::Start)?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}

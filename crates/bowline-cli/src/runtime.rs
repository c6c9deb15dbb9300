//! The tokio runtime of commands that wait.

use std::io;

/// Why there is no runtime.
#[derive(Debug, thiserror::Error)]
#[error("cannot start: {0}")]
pub(crate) struct RuntimeError(#[source] io::Error);

/// Runs a command's future to its end.
pub(crate) fn block_on<F: Future>(future: F) -> Result<F::Output, RuntimeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    Ok(runtime.map_err(RuntimeError)?.block_on(future))
}

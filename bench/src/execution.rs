//! One run in this process, from its start to its exit status.

use std::future::Future;
use std::process::ExitCode;

use bowline_clock::{Clock, Scope};
use tokio::runtime::Builder;

use crate::apiserver::load::Failure;
use crate::subject::Measured;

/// Performs a run and prints its measurements, as one line of JSON.
pub(crate) fn measured<F>(run: impl FnOnce(Scope) -> F) -> ExitCode
where
    F: Future<Output = Result<Measured, Failure>> + Send + 'static,
{
    printed(block_on(run))
}

/// The same on one thread, for a run that observes another process and should use few resources.
pub(crate) fn measured_on_one_thread<F>(run: impl FnOnce(Scope) -> F) -> ExitCode
where
    F: Future<Output = Result<Measured, Failure>> + Send + 'static,
{
    printed(block_on_runtime(Builder::new_current_thread(), run))
}

fn printed(measured: Result<Measured, Failure>) -> ExitCode {
    ended(measured.map(|measured| {
        println!("{}", serde_json::to_string(&measured).expect("strings and numbers are always JSON"));
    }))
}

/// Runs a future on a runtime with all cores.
///
/// # Errors
/// When it fails, or the runtime cannot be built.
pub(crate) fn block_on<F, T>(run: impl FnOnce(Scope) -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>> + Send + 'static,
    T: Send + 'static,
{
    block_on_runtime(Builder::new_multi_thread(), run)
}

fn block_on_runtime<F, T>(mut runtime: Builder, run: impl FnOnce(Scope) -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>> + Send + 'static,
    T: Send + 'static,
{
    runtime.enable_all().build()?.block_on(async {
        let scope = Clock::real().scope("program");
        // In a task: wake-ups of this thread would be slower.
        scope.spawn("run", run(scope.scope("run"))).await?
    })
}

/// The exit status, after printing the error of a failure.
pub(crate) fn ended(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

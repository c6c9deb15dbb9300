//! The outputs of commands: the standard output and failures to write there, errors with hints, notes.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Exit code for arguments that are not valid, as `clap` has it.
const USAGE: u8 = 2;

/// Prints the output of a command.
///
/// A closed pipe, as after `head`, is a success. Any other failure, such as a full
/// disk, is an error on the standard error and exit code 1.
pub(crate) fn print(text: &[u8]) -> ExitCode {
    let mut output = io::stdout().lock();
    match output.write_all(text).and_then(|()| output.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(&format!("cannot write to the standard output: {error}"), None),
    }
}

/// Prints why a command failed, and advice. Exit code 1.
pub(crate) fn fail(error: &impl Display, hint: Option<&str>) -> ExitCode {
    let hint = hint.map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
    // If the standard error is closed too, the exit code alone reports the failure.
    let _ = write!(io::stderr(), "error: {error}\n{hint}");
    ExitCode::FAILURE
}

/// Prints why arguments are not valid, and advice. Exit code 2.
pub(crate) fn usage(error: &impl Display, hint: &str) -> ExitCode {
    fail(error, Some(hint));
    ExitCode::from(USAGE)
}

/// Prints a remark about a command that succeeds.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "note: {text}");
}

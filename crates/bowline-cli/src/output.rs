//! The standard output, and failures to write there.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Prints the output of a command.
///
/// A closed pipe, as after `head`, is a success. Any other failure, such as a full
/// disk, is an error on the standard error and exit code 1.
pub(crate) fn print(text: &[u8]) -> ExitCode {
    let mut output = io::stdout().lock();
    match output.write_all(text).and_then(|()| output.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            // If the standard error is closed too, the exit code alone reports the failure.
            let _ = writeln!(io::stderr(), "error: cannot write to the standard output: {error}");
            ExitCode::FAILURE
        }
    }
}

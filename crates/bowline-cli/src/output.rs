//! The standard output, and what a failure to write there means.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Prints the whole of what a verb has to say.
///
/// A reader that has seen enough and closed the pipe, as `head` does, is a success. Any other failure, such as a full
/// disk, is told on the standard error and is exit code 1.
pub(crate) fn print(text: &[u8]) -> ExitCode {
    let mut output = io::stdout().lock();
    match output.write_all(text).and_then(|()| output.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            // Where the standard error is closed too, the exit code is all that is left to say.
            let _ = writeln!(io::stderr(), "error: cannot write to the standard output: {error}");
            ExitCode::FAILURE
        }
    }
}

//! The benchmark program.

use std::process::ExitCode;

fn main() -> ExitCode {
    bowline_bench::run(None)
}

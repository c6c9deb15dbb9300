//! The operator of `foo-converge` on our own libraries, as a minimal program like the Go peers.

use std::process::ExitCode;

fn main() -> ExitCode {
    bowline_bench::bowline_foo()
}

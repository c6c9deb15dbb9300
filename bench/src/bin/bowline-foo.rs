//! The operator of `foo-converge` on our own libraries: a program with nothing else in it, as the peers in Go are.

use std::process::ExitCode;

fn main() -> ExitCode {
    bowline_bench::bowline_foo()
}

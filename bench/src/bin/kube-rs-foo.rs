//! The operator of `foo-converge` on kube-rs: a program with nothing else in it, as the peers in Go are.

use std::process::ExitCode;

fn main() -> ExitCode {
    bowline_bench::kube_rs_foo()
}

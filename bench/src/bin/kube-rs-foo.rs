//! The operator of `foo-converge` on kube-rs, as a minimal program like the Go peers.

use std::process::ExitCode;

fn main() -> ExitCode {
    bowline_bench::kube_rs_foo()
}

//! The same program with an allocator that counts the bytes that are allocated. That costs time, so nothing is timed in it.

use std::alloc::System;
use std::process::ExitCode;

use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

fn main() -> ExitCode {
    bowline_bench::run(Some(|| ALLOCATOR.allocated()))
}

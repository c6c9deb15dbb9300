//! The same program with an allocator that counts allocated bytes. Counting costs time, so this program measures no
//! times.

use std::alloc::System;
use std::process::ExitCode;

use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

fn main() -> ExitCode {
    bowline_bench::run(Some(|| ALLOCATOR.allocated()))
}

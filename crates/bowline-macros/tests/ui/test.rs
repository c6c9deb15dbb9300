//! `#[test]` on functions that are no tests with an environment.

use bowline_macros::test;

#[test]
fn not_asynchronous(env: ()) {}

#[test]
async fn without_environment() {}

#[test(seed = 7)]
async fn arguments(env: ()) {}

#[test]
async fn generic<T>(env: T) {}

fn main() {}

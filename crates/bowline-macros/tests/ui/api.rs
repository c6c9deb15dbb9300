//! `#[api]` where it has no effect.

use bowline_macros::api;

#[api]
#[derive(Clone)]
struct NothingToDo;

#[api(crate = "other")]
#[derive(Clone)]
struct Arguments;

#[api]
fn function() {}

fn main() {}

//! The `bowline` command line tool: reads the arguments, runs the verb, sets the exit code. The verbs have a file each.

mod arguments;
mod completion;
mod demo;
mod output;
mod plane;
mod version;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Verb};

fn main() -> ExitCode {
    let text = match Arguments::parse().verb {
        Verb::Demo(demo) => return demo::run(&demo),
        Verb::Plane(plane) => return plane::run(&plane),
        Verb::Version(version) => version::text(version.output),
        Verb::Completion(completion) => completion::script(completion.shell),
    };
    output::print(&text)
}

//! The `bowline` command line tool: reads the arguments, runs the verb, sets the exit code. The verbs have a file each.

mod arguments;
mod completion;
mod demo;
mod output;
mod plane;
mod version;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};

fn main() -> ExitCode {
    let text = match Arguments::parse().verb {
        Command::Demo(demo) => return demo::run(&demo),
        Command::Plane(plane) => return plane::run(&plane),
        Command::Version(version) => version::text(version.output),
        Command::Completion(completion) => completion::script(completion.shell),
    };
    output::print(&text)
}

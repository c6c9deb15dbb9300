//! The `bowline` command line tool: reads the arguments, runs the verb, sets the exit code. The verbs have a file each.

mod arguments;
mod changes;
mod cluster;
mod completion;
mod create;
mod demo;
mod dev;
mod init;
mod install;
mod man;
mod manifests;
mod names;
mod output;
mod plane;
mod program;
mod project;
mod run;
mod runtime;
mod screen;
mod source;
mod template;
mod version;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command, Created};

fn main() -> ExitCode {
    let text = match Arguments::parse().verb {
        Command::Init(init) => return init::run(&init),
        Command::Create(create) => match create.what {
            Created::Api(api) => return create::run(&api),
        },
        Command::Dev(dev) => return dev::run(&dev),
        Command::Run(run) => return run::run(&run),
        Command::Install(install) => return install::install(&install),
        Command::Uninstall(uninstall) => return install::uninstall(&uninstall),
        Command::Manifests(manifests) => return manifests::run(&manifests),
        Command::Demo(demo) => return demo::run(&demo),
        Command::Plane(plane) => return plane::run(&plane),
        Command::Version(version) => version::text(version.output),
        Command::Completion(completion) => completion::script(completion.shell),
        Command::Man(man) => return man::run(&man.command),
    };
    output::print(&text)
}

//! Developer commands of Bowline: `cargo xtask COMMAND`. Each command has its own file.

mod facts;
mod metadata;
mod real;
mod tidy;
mod workspace;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer commands of Bowline.
#[derive(Debug, Parser)]
#[command(name = "xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check what the compiler does not: crate edges, unreached files, licences, the README's commands
    Tidy,
    /// Write the facts about built-in kinds, from the Go types of Kubernetes; needs Go
    Facts(facts::Arguments),
    /// A real Kubernetes control plane on this machine, for tests and experiments
    Real(real::Arguments),
}

fn main() -> ExitCode {
    let result: Result<ExitCode, Box<dyn Error>> = match Arguments::parse().command {
        Command::Tidy => tidy::run().map_err(Into::into),
        Command::Facts(arguments) => facts::run(&arguments),
        Command::Real(arguments) => Ok(real::run(arguments)),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

//! What a developer of Bowline runs, as `cargo xtask VERB`. Each verb has a file of its own.

mod facts;
mod metadata;
mod real;
mod tidy;
mod workspace;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a developer of Bowline runs.
#[derive(Debug, Parser)]
#[command(name = "xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Check what the compiler does not: who may know whom, unreached files, licences, the README's commands
    Tidy,
    /// Write the facts about built-in kinds, from the Go types of Kubernetes; needs Go
    Facts(facts::Arguments),
    /// A real Kubernetes control plane on this machine, for tests and to try things against
    Real(real::Arguments),
}

fn main() -> ExitCode {
    let result: Result<ExitCode, Box<dyn Error>> = match Arguments::parse().verb {
        Verb::Tidy => tidy::run().map_err(Into::into),
        Verb::Facts(arguments) => facts::run(&arguments),
        Verb::Real(arguments) => Ok(real::run(arguments)),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

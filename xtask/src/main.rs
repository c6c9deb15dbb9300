//! What a developer of Bowline runs, as `cargo xtask VERB`. Each verb has a file of its own.

mod metadata;
mod real;
mod tidy;
mod workspace;

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
    /// A real Kubernetes control plane on this machine, for tests and to try things against
    Real(real::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().verb {
        Verb::Tidy => tidy::run(),
        Verb::Real(arguments) => Ok(real::run(arguments)),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

//! `cargo xtask facts`: generates the facts about built-in kinds of Kubernetes. Owns the commands and their output
//! files; the Go programs in `xtask/facts` read the Go types.

use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;

use crate::workspace::Workspace;

const TABLE: &str = "crates/bowline-machinery/src/facts/kinds.txt";
const FIXTURES: &str = "crates/bowline-machinery/tests/fixtures";

/// Arguments of `cargo xtask facts`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A file with the aggregated discovery of a kube-apiserver, /api and then /apis, as
    /// `curl -H 'Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'` gets them; without it
    /// the resources stay as they are in the table
    #[arg(long, value_name = "FILE")]
    discovery: Option<PathBuf>,
    /// Leave out the objects with their defaults: the program that makes them takes minutes to compile
    #[arg(long)]
    without_defaults: bool,
}

/// Writes the table of facts, then the objects that tests expect.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let workspace = Workspace::read()?;
    let root = workspace.metadata.root();
    let module = root.join("xtask/facts");
    let table = root.join(TABLE);
    let mut kinds = go(&module, "./kinds");
    match &arguments.discovery {
        Some(file) => {
            kinds.arg("-discovery").arg(fs::canonicalize(file).map_err(|e| FactsError::file(file, e))?)
        }
        None => kinds.arg("-resources-of").arg(&table),
    };
    write(&mut kinds, None, &table)?;

    let fixture = |name: &str| root.join(FIXTURES).join(name);
    let objects = fixture("objects.jsonl");
    write(&mut go(&module, "./normalised"), Some(&objects), &fixture("normalised.jsonl"))?;
    write(&mut go(&module, "./normalised"), Some(&fixture("broken.jsonl")), &fixture("refused.jsonl"))?;
    if !arguments.without_defaults {
        let mut defaulted = go(&module.join("defaulted"), ".");
        write(&mut defaulted, Some(&objects), &fixture("defaulted.jsonl"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A program of a Go module, with exactly the versions in its `go.mod`.
fn go(module: &Path, package: &str) -> Command {
    let mut command = Command::new("go");
    command.args(["run", "-mod=readonly", package]).current_dir(module);
    command
}

/// Runs a program to its end, and only then replaces the file with its output.
fn write(command: &mut Command, input: Option<&Path>, output: &Path) -> Result<(), FactsError> {
    if let Some(input) = input {
        command.stdin(File::open(input).map_err(|source| FactsError::file(input, source))?);
    }
    let result = command.stderr(Stdio::inherit()).output().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => FactsError::NoGo,
        _ => FactsError::Start(source),
    })?;
    if !result.status.success() {
        return Err(FactsError::Failed(output.to_owned()));
    }
    fs::write(output, &result.stdout).map_err(|source| FactsError::file(output, source))?;
    println!("facts: {} bytes in {}", result.stdout.len(), output.display());
    Ok(())
}

/// The facts could not be generated.
#[derive(Debug)]
enum FactsError {
    NoGo,
    Start(io::Error),
    Failed(PathBuf),
    File { file: PathBuf, source: io::Error },
}

impl FactsError {
    fn file(file: &Path, source: io::Error) -> Self {
        Self::File { file: file.to_owned(), source }
    }
}

impl fmt::Display for FactsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGo => {
                f.write_str("there is no go in PATH: install Go 1.26 or newer, see https://go.dev/dl")
            }
            Self::Start(source) => write!(f, "cannot start go: {source}"),
            Self::Failed(output) => {
                write!(f, "{} stays as it was, because its program failed: see above", output.display())
            }
            Self::File { file, source } => write!(f, "{}: {source}", file.display()),
        }
    }
}

impl Error for FactsError {}

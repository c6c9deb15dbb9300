//! The workspace as the checks see it: cargo's metadata and the files that git knows. Owns all reading; the checks
//! are given what is here and read nothing themselves.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::metadata::Metadata;

/// Input of the checks.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) metadata: Metadata,
    /// The text files, by their path from the root: tracked, or new and not ignored. A file that was deleted but is
    /// still in git's index is absent, and so is one that is not UTF-8.
    pub(crate) files: BTreeMap<String, String>,
    /// The names of all crates that a shipped build links, by the manifest of the package: examples without default features,
    /// and the façade with its own.
    pub(crate) trees: BTreeMap<String, Vec<String>>,
}

impl Workspace {
    /// Reads the workspace that the current directory is in.
    pub(crate) fn read() -> Result<Self, WorkspaceError> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let output = output_of(Command::new(&cargo).args(["metadata", "--format-version", "1", "--locked"]))?;
        let metadata: Metadata = serde_json::from_slice(&output).map_err(WorkspaceError::Metadata)?;
        let metadata = metadata.with_relative_paths();

        // In a container, another user often owns the checkout, and git would refuse to read it.
        let trust = format!("safe.directory={}", metadata.root().display());
        let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let output =
            output_of(Command::new("git").arg("-c").arg(trust).args(list).current_dir(metadata.root()))?;

        let mut files = BTreeMap::new();
        for file in String::from_utf8_lossy(&output).split_terminator('\0') {
            match std::fs::read_to_string(metadata.root().join(file)) {
                Ok(text) => {
                    files.insert(file.to_owned(), text);
                }
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {}
                Err(source) => return Err(WorkspaceError::Read { file: file.to_owned(), source }),
            }
        }
        let mut trees = BTreeMap::new();
        for member in metadata.members() {
            let features: &[&str] = match &*member.name {
                "bowline" => &[],
                _ if member.is_example() => &["--no-default-features"],
                _ => continue,
            };
            let tree =
                ["tree", "--locked", "--edges", "normal", "--prefix", "none", "--package", &member.name];
            let output = output_of(Command::new(&cargo).args(tree).args(features))?;
            let lines = String::from_utf8_lossy(&output);
            let names = lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned);
            trees.insert(member.manifest_path.clone(), names.collect());
        }
        Ok(Self { metadata, files, trees })
    }

    /// The Rust files among [`files`](Self::files).
    pub(crate) fn rust_files(&self) -> BTreeMap<&str, &str> {
        let files = self.files.iter().map(|(file, text)| (file.as_str(), text.as_str()));
        files
            .filter(|(file, _)| Path::new(file).extension().is_some_and(|extension| extension == "rs"))
            .collect()
    }
}

/// Why the workspace could not be read.
#[derive(Debug)]
pub(crate) enum WorkspaceError {
    /// A program could not be started.
    Start { program: String, source: io::Error },
    /// A program ran and failed.
    Failed { program: String, stderr: String },
    /// The output of `cargo metadata` is not what is expected.
    Metadata(serde_json::Error),
    /// A file could not be read.
    Read { file: String, source: io::Error },
}

impl fmt::Display for WorkspaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { program, source } => write!(f, "cannot start {program}: {source}"),
            Self::Failed { program, stderr } => write!(f, "{program} failed: {}", stderr.trim()),
            Self::Metadata(source) => write!(f, "cannot read the output of cargo metadata: {source}"),
            Self::Read { file, source } => write!(f, "cannot read {file}: {source}"),
        }
    }
}

impl Error for WorkspaceError {}

fn output_of(command: &mut Command) -> Result<Vec<u8>, WorkspaceError> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.output() {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => Err(WorkspaceError::Failed {
            program,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }),
        Err(source) => Err(WorkspaceError::Start { program, source }),
    }
}

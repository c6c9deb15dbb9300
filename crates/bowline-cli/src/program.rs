//! The operator's program: built by cargo, and asked for what it declares.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bowline::prelude::Clock;
use bowline::runtime::{DESCRIPTION_FORMAT, OperatorDescription};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::project::Project;

/// Time limit for a description. It opens no connection, and takes milliseconds.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(30);

/// A program that was built.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    path: PathBuf,
}

/// Why there is no program, or no description of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ProgramError {
    #[error("cannot run cargo: {0}")]
    Cargo(#[source] io::Error),
    #[error("the operator does not build: cargo ended with {status}")]
    Build { status: ExitStatus },
    #[error("the package in {} has no program", root.display())]
    NoProgram { root: PathBuf },
    #[error("the package in {} has several programs: {}", root.display(), names.join(", "))]
    SeveralPrograms { root: PathBuf, names: Vec<String> },
    #[error("cannot run {}: {source}", path.display())]
    Run { path: PathBuf, source: io::Error },
    #[error("`{command}` failed ({status}){}", if text.is_empty() { String::new() } else { format!(": {text}") })]
    Describe { command: String, status: ExitStatus, text: String },
    #[error("`{command}` has not ended after {DESCRIBE_TIMEOUT:?}")]
    Timeout { command: String },
    #[error("`{command}` printed no description: {problem}")]
    Description { command: String, problem: String },
    #[error(
        "`{command}` printed a description of form {format}, and this tool reads form {DESCRIPTION_FORMAT}"
    )]
    Format { command: String, format: u64 },
}

impl ProgramError {
    /// Advice for the user.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::SeveralPrograms { .. } => Some(
                "set `default-run` in Cargo.toml, or give one of them the name of the operator".to_owned(),
            ),
            Self::Describe { .. } => {
                Some("flags that the operator requires belong to `args` in bowline.toml".to_owned())
            }
            Self::Description { .. } | Self::Timeout { .. } => Some(
                "`main` needs the ready-made flags (`bowline::args`), and calls `Manager::run` at its end"
                    .to_owned(),
            ),
            Self::Format { .. } => {
                Some("use the same version of the tool and of the crate `bowline`".to_owned())
            }
            _ => None,
        }
    }
}

/// A line of cargo's output. Other messages have other fields.
#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

impl Program {
    /// Builds the program of a project. cargo's progress and errors go to the standard error.
    pub(crate) async fn build(project: &Project) -> Result<Self, ProgramError> {
        let root = &project.root;
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--message-format=json-render-diagnostics"]).current_dir(root);
        build.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_package(&name.to_string_lossy())) {
            build.env_remove(name);
        }
        let mut build = build.spawn().map_err(ProgramError::Cargo)?;
        let mut programs = Vec::new();
        if let Some(output) = build.stdout.take() {
            let manifest = root.join("Cargo.toml");
            let manifest = manifest.canonicalize().unwrap_or(manifest);
            let mut lines = BufReader::new(output).lines();
            while let Some(line) = lines.next_line().await.map_err(ProgramError::Cargo)? {
                programs.extend(program_in(&line, &manifest));
            }
        }
        let status = build.wait().await.map_err(ProgramError::Cargo)?;
        if !status.success() {
            return Err(ProgramError::Build { status });
        }
        choose(programs, project)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Asks the program what it declares. It opens no connection.
    pub(crate) async fn describe(&self, project: &Project) -> Result<OperatorDescription, ProgramError> {
        let arguments: Vec<_> = project.operator.all_args().chain(["describe".to_owned()]).collect();
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let command = format!("{name} {}", arguments.join(" "));
        let mut process = Command::new(&self.path);
        process.args(&arguments).current_dir(&project.root).stdin(Stdio::null()).kill_on_drop(true);
        let output = Clock::real().timeout(DESCRIBE_TIMEOUT, process.output()).await;
        let Ok(output) = output else { return Err(ProgramError::Timeout { command }) };
        let output = output.map_err(|source| ProgramError::Run { path: self.path.clone(), source })?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(ProgramError::Describe { command, status: output.status, text });
        }
        read(&output.stdout, command)
    }
}

/// Whether `cargo run` and `cargo test` set this variable for the program that they start. Build scripts, such as that of ring, run
/// again when it changes.
fn is_of_package(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| variable.starts_with(prefix))
}

/// A program of the package with this manifest, if the message is about one: its name and path.
fn program_in(line: &str, manifest: &Path) -> Option<(String, PathBuf)> {
    let message: Message = serde_json::from_str(line).ok()?;
    let is_own = message.manifest_path.is_some_and(|path| path == manifest);
    let target = message.target.filter(|target| target.kind.iter().any(|kind| kind == "bin"))?;
    (message.reason == "compiler-artifact" && is_own).then_some((target.name, message.executable?))
}

/// The only program, or the one that `default-run` or the operator's name selects.
fn choose(programs: Vec<(String, PathBuf)>, project: &Project) -> Result<Program, ProgramError> {
    let root = project.root.clone();
    if programs.len() > 1 {
        let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default();
        let manifest: toml::Table = manifest.parse().unwrap_or_default();
        let default = manifest.get("package").and_then(|package| package.get("default-run")?.as_str());
        let wanted = [default, Some(project.operator.name.as_str())];
        let mut wanted = wanted.into_iter().flatten();
        let found = wanted.find_map(|wanted| programs.iter().find(|(name, _)| name == wanted));
        let Some((_, path)) = found else {
            let names = programs.into_iter().map(|(name, _)| name).collect();
            return Err(ProgramError::SeveralPrograms { root, names });
        };
        return Ok(Program { path: path.clone() });
    }
    match programs.into_iter().next() {
        Some((_, path)) => Ok(Program { path }),
        None => Err(ProgramError::NoProgram { root }),
    }
}

fn read(output: &[u8], command: String) -> Result<OperatorDescription, ProgramError> {
    let described: serde_json::Value = match serde_json::from_slice(output) {
        Ok(described) => described,
        Err(error) => return Err(ProgramError::Description { command, problem: error.to_string() }),
    };
    // Another form may have other fields.
    match described.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) if format != u64::from(DESCRIPTION_FORMAT) => {
            Err(ProgramError::Format { command, format })
        }
        _ => serde_json::from_value(described)
            .map_err(|error| ProgramError::Description { command, problem: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_of_the_package_are_found_in_cargos_output() {
        let manifest = Path::new("/games/Cargo.toml");
        let line = |kind: &str, path: &str, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"{path}","target":{{"name":"games","kind":["{kind}"]}},"executable":{executable}}}"#
            )
        };
        let found = program_in(&line("bin", "/games/Cargo.toml", r#""/t/games""#), manifest);
        assert_eq!(found, Some(("games".to_owned(), PathBuf::from("/t/games"))));
        assert_eq!(program_in(&line("bin", "/other/Cargo.toml", r#""/t/other""#), manifest), None);
        assert_eq!(program_in(&line("lib", "/games/Cargo.toml", "null"), manifest), None);
        assert_eq!(program_in(r#"{"reason":"build-finished","success":true}"#, manifest), None);
        assert_eq!(program_in("a line that a build script printed", manifest), None);
    }

    #[test]
    fn a_description_of_another_form_is_refused() {
        let error = read(br#"{"format": 2, "kinds": []}"#, "games describe".to_owned()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`games describe` printed a description of form 2, and this tool reads form 1"
        );
        let error = read(b"hello", "games describe".to_owned()).unwrap_err();
        assert!(
            error.to_string().starts_with("`games describe` printed no description: expected value"),
            "{error}"
        );
    }
}

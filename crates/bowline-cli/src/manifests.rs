//! `bowline manifests`: writes the manifests of the project's operator, or compares them with the files that are there.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bowline_manifests::{Manifest, ManifestError, Manifests, is_generated};
use serde_json::json;

use crate::arguments::{self, Output};
use crate::changes::{ChangeError, Changes, Interrupts};
use crate::program::{Program, ProgramError};
use crate::project::{Project, ProjectError};
use crate::{output, runtime};

/// Why there are no manifests, or why they are not up to date.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
enum ManifestsError {
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("cannot make the manifests: {0}")]
    Render(#[from] ManifestError),
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} exists, and `bowline manifests` did not write it", path.display())]
    Foreign { path: PathBuf },
    #[error("cannot remove {}: {source}", path.display())]
    Remove { path: PathBuf, source: io::Error },
    #[error("{} in {} not up to date:\n{}", files(differences.len()), out.display(), differences.join("\n"))]
    Drift { out: PathBuf, differences: Vec<String> },
    #[error(transparent)]
    Change(#[from] ChangeError),
}

impl ManifestsError {
    /// Advice for the user.
    fn hint(&self) -> Option<String> {
        match self {
            Self::Project(error) => error.hint(),
            Self::Program(error) => error.hint(),
            Self::Change(error) => error.hint(),
            Self::Drift { .. } => Some("run `bowline manifests`, and commit the result".to_owned()),
            Self::Foreign { .. } => Some("move it away, or choose another folder with `--out`".to_owned()),
            _ => None,
        }
    }
}

fn files(count: usize) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

/// The state of a file before it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unchanged,
    Changed,
    Missing,
    /// No longer made.
    Stale,
}

impl State {
    fn written(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Changed | Self::Missing => "wrote",
            Self::Stale => "removed",
        }
    }

    fn found(self) -> &'static str {
        match self {
            Self::Unchanged => "up to date",
            Self::Changed => "differs",
            Self::Missing => "is missing",
            Self::Stale => "is no longer needed",
        }
    }
}

/// A file below the folder of manifests.
struct ManifestFile {
    path: String,
    state: State,
    text: String,
}

/// Writes or checks the manifests.
pub(crate) fn run(arguments: &arguments::Manifests) -> ExitCode {
    let compared = match runtime::block_on(compare(arguments)) {
        Ok(compared) => compared,
        Err(error) => return output::fail(&error, None),
    };
    let done =
        compared.and_then(|(out, files)| if arguments.check { check(out, files) } else { write(out, files) });
    match done {
        Ok((out, files)) => output::print(report(&out, &files, arguments).as_bytes()),
        Err(error) => output::fail(&error, error.hint().as_deref()),
    }
}

/// The files to write, compared with those that are there.
async fn compare(arguments: &arguments::Manifests) -> Result<(PathBuf, Vec<ManifestFile>), ManifestsError> {
    let project = Project::find()?;
    let description = Program::build(&project).await?.describe(&project).await?;
    let operator = &project.operator;
    let mut options = Manifests::new(&operator.name).args(&operator.args).namespaces(&operator.namespaces);
    if let Some(image) = arguments.image.as_ref().or(operator.image.as_ref()) {
        options = options.image(image);
    }
    if let Some(namespace) = arguments.namespace.as_ref().or(operator.namespace.as_ref()) {
        options = options.namespace(namespace);
    }
    let manifests = options.render(&description)?;
    // A relative path is that of the user's folder.
    let out = arguments.out.clone().unwrap_or_else(|| short(&project.root.join("manifests")));
    let mut files = Vec::new();
    for Manifest { path, text, .. } in &manifests {
        let target = out.join(path);
        let state = match read(&target)? {
            None => State::Missing,
            Some(old) if old == *text => State::Unchanged,
            Some(old) if is_generated(&old) => State::Changed,
            Some(_) => return Err(ManifestsError::Foreign { path: target }),
        };
        files.push(ManifestFile { path: path.clone(), state, text: text.clone() });
    }
    let made: BTreeSet<_> = manifests.iter().map(|manifest| out.join(&manifest.path)).collect();
    for path in generated_below(&out)?.into_iter().filter(|path| !made.contains(path)) {
        let path = path.strip_prefix(&out).unwrap_or(&path).to_string_lossy().into_owned();
        files.push(ManifestFile { path, state: State::Stale, text: String::new() });
    }
    Ok((out, files))
}

/// A path below the current folder without that folder.
fn short(path: &Path) -> PathBuf {
    let folder = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(folder).unwrap_or(path).to_owned()
}

fn read(path: &Path) -> Result<Option<String>, ManifestsError> {
    match std::fs::read(path) {
        // Other bytes are another's file, which has no marker.
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ManifestsError::Read { path: path.to_owned(), source }),
    }
}

/// The files below a folder that an earlier run wrote.
fn generated_below(folder: &Path) -> Result<Vec<PathBuf>, ManifestsError> {
    let failed = |source| ManifestsError::Read { path: folder.to_owned(), source };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(failed(source)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
        if kind.is_dir() {
            found.extend(generated_below(&path)?);
        } else if kind.is_file() && read(&path)?.is_some_and(|text| is_generated(&text)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn check(out: PathBuf, files: Vec<ManifestFile>) -> Result<(PathBuf, Vec<ManifestFile>), ManifestsError> {
    let differing = files.iter().filter(|file| file.state != State::Unchanged);
    let differences: Vec<_> =
        differing.map(|file| format!("  {} {}", file.path, file.state.found())).collect();
    if differences.is_empty() { Ok((out, files)) } else { Err(ManifestsError::Drift { out, differences }) }
}

fn write(out: PathBuf, files: Vec<ManifestFile>) -> Result<(PathBuf, Vec<ManifestFile>), ManifestsError> {
    let mut interrupts = Interrupts::listen();
    let mut changes = Changes::default();
    for file in &files {
        match file.state {
            State::Missing => changes.create(out.join(&file.path), file.text.clone()),
            State::Changed => changes.replace(out.join(&file.path), file.text.clone()),
            State::Unchanged | State::Stale => {}
        }
    }
    changes.write(|| interrupts.arrived())?;
    for file in files.iter().filter(|file| file.state == State::Stale) {
        let path = out.join(&file.path);
        std::fs::remove_file(&path).map_err(|source| ManifestsError::Remove { path, source })?;
    }
    Ok((out, files))
}

fn report(out: &Path, files: &[ManifestFile], arguments: &arguments::Manifests) -> String {
    if arguments.output == Output::Json {
        let word =
            |file: &ManifestFile| if arguments.check { file.state.found() } else { file.state.written() };
        let all = files.iter().map(|file| json!({"path": out.join(&file.path), "state": word(file)}));
        return format!("{}\n", all.collect::<serde_json::Value>());
    }
    if arguments.check {
        return format!("{} in {} are up to date\n", self::files(files.len()), out.display());
    }
    let mut lines = Vec::new();
    for file in files.iter().filter(|file| file.state != State::Unchanged) {
        lines.push(format!("{} {}", file.state.written(), out.join(&file.path).display()));
    }
    let unchanged = files.len() - lines.len();
    if unchanged > 0 {
        lines.push(format!("{} unchanged", self::files(unchanged)));
    }
    let install = out.join("install.yaml");
    format!("{}\n\nInstall with:\n  kubectl apply -f {}\n", lines.join("\n"), install.display())
}

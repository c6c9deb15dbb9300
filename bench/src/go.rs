//! The peers in Go: their builds and versions.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::{env, fmt, io};

use crate::subject::Subject;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/go");
const GO_MOD: &str = include_str!("../peers/go/go.mod");

/// Names of the subjects on Go libraries, and their modules.
pub(crate) const CLIENT_GO: Library = Library { name: "client-go", module: "k8s.io/client-go" };
pub(crate) const CONTROLLER_RUNTIME: Library =
    Library { name: "controller-runtime", module: "sigs.k8s.io/controller-runtime" };

/// A library of subjects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library {
    pub(crate) name: &'static str,
    module: &'static str,
}

impl Library {
    pub(crate) fn version(self) -> &'static str {
        module_version(self.module).unwrap_or("of unknown version")
    }

    /// The subject that is a program in this directory, with its arguments before the workload.
    pub(crate) fn subject(self, programs: &Path, program: &str, arguments: &[String]) -> Subject {
        Subject {
            name: self.name,
            version: self.version().to_owned(),
            program: programs.join(program),
            arguments: arguments.to_vec(),
        }
    }
}

/// Builds all commands of the Go module and returns their directory, in Cargo's target directory.
///
/// Output of the Go tool goes to stderr.
///
/// # Errors
/// When Go is missing, or the build fails.
pub(crate) fn build() -> Result<PathBuf, BuildError> {
    let programs = programs_directory(&env::current_exe().map_err(BuildError::NoTargetDirectory)?);
    eprintln!("building the Go peers; the first time takes a minute or two");
    // A slash at the end makes it a directory, whether it exists or not.
    let output = format!("{}/", programs.display());
    let status = Command::new("go")
        .args(["build", "-trimpath", "-o", &output, "./cmd/..."])
        .current_dir(SOURCE)
        .status()
        .map_err(|error| BuildError::not_started(error, Path::new(SOURCE)))?;
    if status.success() { Ok(programs) } else { Err(BuildError::Failed(status)) }
}

/// The version of a module in the peers' `go.mod`.
fn module_version(module: &str) -> Option<&'static str> {
    GO_MOD.lines().find_map(|line| line.trim().strip_prefix(module)?.strip_prefix(' ')?.split(' ').next())
}

/// This program is in `target/release`; built ones go beside it.
fn programs_directory(this_program: &Path) -> PathBuf {
    let target = this_program.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    target.join("bench-peers")
}

/// The Go peers cannot be built.
#[derive(Debug)]
pub(crate) enum BuildError {
    NoTargetDirectory(io::Error),
    NoGo,
    /// The checkout that this program was built from is gone.
    NoSource,
    NotStarted(io::Error),
    Failed(ExitStatus),
}

impl BuildError {
    /// The program or its working directory was not found: the system does not distinguish them.
    fn not_started(error: io::Error, source: &Path) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound if source.is_dir() => Self::NoGo,
            io::ErrorKind::NotFound => Self::NoSource,
            _ => Self::NotStarted(error),
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needed = module_version("go").unwrap_or("1.26");
        match self {
            Self::NoTargetDirectory(error) => write!(f, "cannot tell where to build the Go peers: {error}"),
            Self::NoGo => write!(
                f,
                "the Go peers cannot be built: there is no `go` on the PATH; install Go {needed} or later, or \
                 leave out `--peer go`"
            ),
            Self::NoSource => write!(
                f,
                "the Go peers cannot be built: their source, {SOURCE}, is gone; run this program from a checkout, with \
                 `cargo run --release -p bowline-bench`"
            ),
            Self::NotStarted(error) => write!(f, "cannot run `go build` in {SOURCE}: {error}"),
            Self::Failed(status) => write!(
                f,
                "`go build` in {SOURCE} failed ({status}), see above; it needs Go {needed} or later, and a module \
                 proxy the first time. Leave out `--peer go` to run without"
            ),
        }
    }
}

impl std::error::Error for BuildError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_go_mod() {
        assert!(module_version("k8s.io/client-go").unwrap().starts_with("v0."));
        assert!(module_version("sigs.k8s.io/controller-runtime").unwrap().starts_with("v0."));
        assert!(module_version("go").unwrap().starts_with("1."));
        assert_eq!(module_version("k8s.io/client"), None);
    }

    #[test]
    fn a_missing_go_is_named_with_what_to_do() {
        let text = BuildError::NoGo.to_string();
        assert!(text.contains("install Go 1.") && text.contains("leave out `--peer go`"), "{text}");
    }

    #[test]
    fn a_missing_checkout_is_not_taken_for_a_missing_go() {
        let not_found = || io::Error::from(io::ErrorKind::NotFound);
        let directory = tempfile::tempdir().unwrap();
        let gone = directory.path().join("gone");
        assert!(matches!(BuildError::not_started(not_found(), directory.path()), BuildError::NoGo));
        let error = BuildError::not_started(not_found(), &gone);
        assert!(matches!(error, BuildError::NoSource));
        assert!(error.to_string().contains(SOURCE), "{error}");
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(matches!(BuildError::not_started(denied, &gone), BuildError::NotStarted(_)));
    }

    #[test]
    fn programs_go_beside_the_profile_of_this_one() {
        let directory = programs_directory(Path::new("/target/release/bowline-bench"));
        assert_eq!(directory, Path::new("/target/bench-peers"));
    }
}

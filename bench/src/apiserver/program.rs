//! Programs that are built before a measurement: kube-apiserver and etcd, and this program without optimization.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::{env, fmt, io};

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Exit code of `cargo xtask real` without Go.
const NO_GO: i32 = 3;

/// kube-apiserver and etcd.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RealPrograms {
    pub(crate) directory: PathBuf,
    pub(crate) versions: String,
}

/// The programs of a real control plane, built if they are missing. Build output goes to stderr.
///
/// # Errors
/// When there is no Go to build them with, or the build fails.
pub(crate) fn real() -> Result<RealPrograms, ProgramError> {
    let what = "kube-apiserver and etcd";
    let output = cargo(what, &["xtask", "real", "build"])?;
    Ok(RealPrograms::in_directory(output.trim_end()))
}

/// This program in the dev profile, built if it is missing.
///
/// # Errors
/// When the build fails.
pub(crate) fn dev() -> Result<PathBuf, ProgramError> {
    eprintln!("building the dev profile of bowline-bench; the first time takes a minute or two");
    let what = "the dev profile of bowline-bench";
    cargo(what, &["build", "--quiet", "--locked", "--package", "bowline-bench", "--bin", "bowline-bench"])?;
    Ok(target_directory(what)?.join("debug").join("bowline-bench"))
}

/// This program with a counting allocator, see [`beside`].
///
/// # Errors
/// When the build fails.
pub(crate) fn counting() -> Result<PathBuf, ProgramError> {
    beside("bowline-bench-counting")
}

/// Another program of this package, built if it is missing, in the profile of this one.
///
/// # Errors
/// When the build fails.
pub(crate) fn beside(what: &'static str) -> Result<PathBuf, ProgramError> {
    eprintln!("building {what}; the first time takes a minute or two");
    let (profile, directory) = if cfg!(debug_assertions) { ("dev", "debug") } else { ("release", "release") };
    let arguments =
        ["build", "--quiet", "--locked", "--package", "bowline-bench", "--profile", profile, "--bin", what];
    cargo(what, &arguments)?;
    Ok(target_directory(what)?.join(directory).join(what))
}

impl RealPrograms {
    /// Programs lie in `VERSIONS/bin`.
    fn in_directory(directory: &str) -> Self {
        let directory = PathBuf::from(directory);
        let versions = directory.parent().and_then(Path::file_name).unwrap_or_default();
        let versions = versions.to_string_lossy().replace('_', ", ");
        Self { directory, versions }
    }
}

/// Runs Cargo in the workspace, with the target directory of this program, and returns its output.
fn cargo(what: &'static str, arguments: &[&str]) -> Result<String, ProgramError> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    // `cargo run` sets variables of the package. Build scripts that depend on them would run again, and all dependents
    // after them.
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
    let output = command
        .args(arguments)
        .current_dir(WORKSPACE)
        .env("CARGO_TARGET_DIR", target_directory(what)?)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| ProgramError::NotStarted { what, source })?;
    match output.status {
        status if status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        status if status.code() == Some(NO_GO) => Err(ProgramError::NoGo { what }),
        status => Err(ProgramError::Failed { what, status }),
    }
}

/// Whether Cargo sets this variable for the package of a program.
fn is_of_package(name: &str) -> bool {
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

/// Programs are in `target/release`.
fn target_directory(what: &'static str) -> Result<PathBuf, ProgramError> {
    let program = env::current_exe().map_err(|source| ProgramError::NotStarted { what, source })?;
    Ok(program.parent().and_then(Path::parent).unwrap_or(Path::new(".")).to_owned())
}

/// A program cannot be built.
#[derive(Debug)]
pub(crate) enum ProgramError {
    NotStarted { what: &'static str, source: io::Error },
    NoGo { what: &'static str },
    Failed { what: &'static str, status: ExitStatus },
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted { what, source } => write!(f, "cannot run cargo to build {what}: {source}"),
            Self::NoGo { what } => write!(
                f,
                "{what} cannot be built, see above: install Go, or leave out `--peer kube-apiserver` to run without"
            ),
            Self::Failed { what, status } => write!(f, "the build of {what} failed ({status}), see above"),
        }
    }
}

impl std::error::Error for ProgramError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_by_the_directory() {
        let programs = RealPrograms::in_directory("/cache/real/kubernetes-v1.36.4_etcd-v3.6.16/bin");
        assert_eq!(programs.versions, "kubernetes-v1.36.4, etcd-v3.6.16");
        assert_eq!(RealPrograms::in_directory("").versions, "");
    }

    #[test]
    fn what_cargo_says_of_a_package_is_told_from_what_it_is_set_by() {
        assert!(
            ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH"].into_iter().all(is_of_package)
        );
        assert!(
            !["CARGO", "CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_INCREMENTAL"].into_iter().any(is_of_package)
        );
    }

    #[test]
    fn without_go_it_says_what_to_do() {
        let text = ProgramError::NoGo { what: "kube-apiserver and etcd" }.to_string();
        assert!(text.contains("install Go") && text.contains("leave out `--peer kube-apiserver`"), "{text}");
    }
}

//! `bowline init`: a new project that builds, runs and passes its tests.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::arguments::Init;
use crate::changes::{ChangeError, Changes, Interrupts};
use crate::template::{self, fill};
use crate::{names, output, project};

/// Why no project was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
enum InitError {
    #[error("`{name}.{domain}` cannot be the name of a lease: {problem}")]
    Lease { name: String, domain: String, problem: String },
    #[error("{} exists already, and is not an empty folder", folder.display())]
    Exists { folder: PathBuf },
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("there is no checkout of Bowline in {}: `crates/bowline/Cargo.toml` is missing", path.display())]
    NoCheckout { path: PathBuf },
    #[error("the path {} is not UTF-8, and Cargo.toml cannot name it", path.display())]
    NotUtf8 { path: PathBuf },
    #[error(transparent)]
    Change(#[from] ChangeError),
}

impl InitError {
    /// Advice for the user.
    fn hint(&self) -> Option<String> {
        match self {
            Self::Lease { .. } => Some("choose a shorter name or domain".to_owned()),
            Self::Exists { .. } => Some("choose another name, or move it away".to_owned()),
            Self::NoCheckout { .. } => {
                Some("name the root of a clone, or leave out `--bowline` to use the registry".to_owned())
            }
            Self::Change(error) => error.hint(),
            Self::Read { .. } | Self::NotUtf8 { .. } => None,
        }
    }
}

/// Makes a project in a new folder.
pub(crate) fn run(arguments: &Init) -> ExitCode {
    match init(arguments) {
        Ok(paths) => output::print(report(&arguments.name, &paths).as_bytes()),
        Err(error) => output::fail(&error, error.hint().as_deref()),
    }
}

fn init(arguments: &Init) -> Result<Vec<String>, InitError> {
    let Init { name, domain, .. } = arguments;
    let mut interrupts = Interrupts::listen();
    let lease = names::lease(name, domain).map_err(|problem| InitError::Lease {
        name: name.clone(),
        domain: domain.clone(),
        problem,
    })?;
    let folder = Path::new(name);
    check_empty(folder)?;
    let source = BowlineSource::new(arguments.bowline.as_deref())?;
    let files = files(arguments, &lease, &source)?;
    let mut changes = Changes::default();
    for (path, text) in &files {
        changes.create(folder.join(path), text.clone());
    }
    changes.write(|| interrupts.arrived())?;
    Ok(files.into_iter().map(|(path, _)| path.to_owned()).collect())
}

fn check_empty(folder: &Path) -> Result<(), InitError> {
    match std::fs::read_dir(folder) {
        Ok(entries) => match entries.count() {
            0 => Ok(()),
            _ => Err(InitError::Exists { folder: folder.to_owned() }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound && folder.symlink_metadata().is_err() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(InitError::Read { path: folder.to_owned(), source: error })
        }
        Err(_) => Err(InitError::Exists { folder: folder.to_owned() }),
    }
}

/// Where the crates of Bowline come from.
enum BowlineSource {
    /// The registry, in the version of this program.
    Registry,
    /// The folder `crates` of a checkout.
    Checkout(PathBuf),
}

impl BowlineSource {
    /// The checkout that is named, or else the one that this program was built from, if it is still there.
    fn new(named: Option<&Path>) -> Result<Self, InitError> {
        if let Some(path) = named {
            return Self::checkout(path).ok_or_else(|| InitError::NoCheckout { path: path.to_owned() });
        }
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        Ok(own.and_then(Self::checkout).unwrap_or(Self::Registry))
    }

    fn checkout(root: &Path) -> Option<Self> {
        let crates = root.join("crates").canonicalize().ok()?;
        let has = |name: &str| crates.join(name).join("Cargo.toml").is_file();
        (has("bowline") && has("bowline-testing")).then_some(Self::Checkout(crates))
    }

    /// The key and value of a crate in Cargo.toml.
    fn dependency(&self, name: &str) -> Result<String, InitError> {
        match self {
            Self::Registry => Ok(format!("version = {}", quoted(env!("CARGO_PKG_VERSION")))),
            Self::Checkout(crates) => {
                let path = crates.join(name);
                let path = path.to_str().ok_or_else(|| InitError::NotUtf8 { path: path.clone() })?;
                Ok(format!("path = {}", quoted(path)))
            }
        }
    }
}

/// A text as a string of TOML. TOML has the escapes of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn files(
    arguments: &Init,
    lease: &str,
    source: &BowlineSource,
) -> Result<Vec<(&'static str, String)>, InitError> {
    let Init { name, domain, license, owner, .. } = arguments;
    let package =
        license.as_ref().map(|license| format!("license = {}\n", quoted(license))).unwrap_or_default();
    let manifest = fill(
        include_str!("../templates/Cargo.toml.tmpl"),
        &[
            ("name", name),
            ("rust_version", env!("CARGO_PKG_RUST_VERSION")),
            ("license", &package),
            ("bowline", &source.dependency("bowline")?),
            ("bowline_testing", &source.dependency("bowline-testing")?),
        ],
    );
    let main = fill(include_str!("../templates/main.rs.tmpl"), &[("name", name), ("lease", lease)]);
    let main = license_comment(owner.as_deref(), license.as_deref()) + &main;
    let own = [("name", name.as_str()), ("domain", domain.as_str())];
    Ok(vec![
        ("Cargo.toml", manifest),
        ("src/main.rs", template::format(main, Path::new("."))),
        (project::FILE, fill(include_str!("../templates/bowline.toml.tmpl"), &own)),
        ("README.md", fill(include_str!("../templates/README.md.tmpl"), &own)),
        (".gitignore", include_str!("../templates/gitignore.tmpl").to_owned()),
        (".github/workflows/ci.yaml", include_str!("../templates/ci.yaml.tmpl").to_owned()),
    ])
}

/// The comment at the top of each Rust file. `bowline create` copies it from `src/main.rs`.
fn license_comment(owner: Option<&str>, license: Option<&str>) -> String {
    let owner = owner.map(|owner| format!("// Copyright {owner}\n"));
    let license = license.map(|license| format!("// SPDX-License-Identifier: {license}\n"));
    let comment = owner.unwrap_or_default() + &license.unwrap_or_default();
    if comment.is_empty() { comment } else { comment + "\n" }
}

/// What was written, and what to do next.
fn report(name: &str, paths: &[String]) -> String {
    let mut report = String::new();
    for path in paths {
        let _ = writeln!(report, "wrote {name}/{path}");
    }
    let _ = write!(
        report,
        "\nNext:\n  cd {name}\n  bowline create api --group GROUP --version v1 --kind KIND\n  cargo test\n  bowline dev\n"
    );
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_has_the_version_of_this_program() {
        let dependency = BowlineSource::Registry.dependency("bowline").unwrap();
        assert_eq!(dependency, format!("version = \"{}\"", env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn a_path_is_escaped() {
        let checkout = BowlineSource::Checkout(PathBuf::from("/a \"b\"\\c/crates"));
        let dependency = checkout.dependency("bowline").unwrap();
        let parsed: toml::Table = toml::from_str(&dependency).unwrap();
        assert_eq!(parsed["path"].as_str(), Some("/a \"b\"\\c/crates/bowline"));
    }

    #[test]
    fn the_program_is_short() {
        assert!(include_str!("../templates/main.rs.tmpl").lines().count() < 40);
    }
}

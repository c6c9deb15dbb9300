//! The project around the current folder: its root, and its `bowline.toml`.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Name of the file that makes a folder a project.
pub(crate) const FILE: &str = "bowline.toml";

/// A project.
#[derive(Debug)]
pub(crate) struct Project {
    /// The folder with `bowline.toml`.
    pub(crate) root: PathBuf,
    /// The operator, as `bowline.toml` describes it.
    pub(crate) operator: Operator,
}

/// The table `[operator]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Operator {
    /// Name of the operator and of its objects in a cluster.
    pub(crate) name: String,
    /// The domain with which its API groups end.
    pub(crate) domain: String,
    /// Arguments of the operator, wherever it runs.
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// The namespaces that it works in; empty for all.
    #[serde(default)]
    pub(crate) namespaces: Vec<String>,
    /// Its image.
    pub(crate) image: Option<String>,
    /// Its namespace.
    pub(crate) namespace: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    operator: Operator,
}

/// Why there is no project to work on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ProjectError {
    #[error("there is no `{FILE}` in {} or in a folder above it", folder.display())]
    Missing { folder: PathBuf },
    #[error("cannot find the current folder: {0}")]
    CurrentFolder(#[source] io::Error),
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is not valid: {problem}", path.display())]
    Content { path: PathBuf, problem: String },
}

impl ProjectError {
    /// Advice for the user.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { .. } => {
                Some("change into the folder of a project, or make one with `bowline init`".to_owned())
            }
            _ => None,
        }
    }
}

impl Operator {
    /// The arguments of the operator, with that for its namespaces.
    pub(crate) fn all_args(&self) -> impl Iterator<Item = String> {
        let namespaces =
            (!self.namespaces.is_empty()).then(|| format!("--namespace={}", self.namespaces.join(",")));
        namespaces.into_iter().chain(self.args.iter().cloned())
    }
}

impl Project {
    /// The project of the current folder.
    pub(crate) fn find() -> Result<Self, ProjectError> {
        Self::find_from(&std::env::current_dir().map_err(ProjectError::CurrentFolder)?)
    }

    /// The project of a folder: `bowline.toml` is in it, or in the nearest folder above it that has one.
    fn find_from(folder: &Path) -> Result<Self, ProjectError> {
        for root in folder.ancestors() {
            let path = root.join(FILE);
            match std::fs::read_to_string(&path) {
                Ok(text) => {
                    let operator =
                        operator(&text).map_err(|problem| ProjectError::Content { path, problem })?;
                    return Ok(Self { root: root.to_owned(), operator });
                }
                Err(error) if is_absent(&error) => {}
                Err(source) => return Err(ProjectError::Read { path, source }),
            }
        }
        Err(ProjectError::Missing { folder: folder.to_owned() })
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn operator(text: &str) -> Result<Operator, String> {
    let content: Content = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
        let line = line.map_or_else(String::new, |line| format!("line {line}: "));
        format!("{line}{}", error.message())
    })?;
    let operator = content.operator;
    let field = |name: &str, checked: Result<String, String>| {
        checked.map(drop).map_err(|problem| format!("`operator.{name}`: {problem}"))
    };
    field("name", crate::names::project(&operator.name))?;
    field("domain", crate::names::domain(&operator.domain))?;
    Ok(operator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_found_from_the_folders_below_it() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("src/kinds");
        std::fs::create_dir_all(&below).unwrap();
        assert!(matches!(Project::find_from(&below), Err(ProjectError::Missing { .. })));
        std::fs::write(folder.path().join(FILE), "[operator]\nname = \"games\"\ndomain = \"example.com\"\n")
            .unwrap();
        let project = Project::find_from(&below).unwrap();
        assert_eq!(
            (project.root.as_path(), project.operator.domain.as_str()),
            (folder.path(), "example.com")
        );
        assert!(project.operator.args.is_empty() && project.operator.image.is_none());
    }

    #[test]
    fn a_file_that_is_not_valid_is_named_with_the_line() {
        for (text, expected) in [
            ("[operator]\nname = games", "line 2: "),
            ("[operator]\nname = \"games\"\n", "line 1: missing field `domain`"),
            (
                "[operator]\nname = \"games\"\ndomain = \"example.com\"\nimages = \"x\"\n",
                "line 4: unknown field `images`",
            ),
            ("[operator]\nname = \"games\"\ndomain = \"k8s.io\"\n", "`operator.domain`: it is reserved"),
            ("[operator]\nname = \"Games\"\ndomain = \"example.com\"\n", "`operator.name`: use lower-case"),
        ] {
            let problem = operator(text).unwrap_err();
            assert!(problem.starts_with(expected), "{text}: {problem}");
        }
    }
}

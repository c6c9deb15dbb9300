//! Why `bowline create api` wrote nothing.

use crate::changes::ChangeError;
use crate::project::ProjectError;

/// Why nothing was created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum CreateError {
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("the group `{group}` does not fit the domain of the project: {problem}")]
    Group { group: String, problem: String },
    #[error("`{name}` {version} exists already ({file})")]
    Exists { name: String, version: String, file: String },
    #[error("{file} exists already")]
    FileExists { file: String, can_be_forced: bool },
    #[error("{file} has more than the kind {kind}, and is not written again")]
    Shared { kind: String, file: String },
    #[error("{kind} {version} ({file}) has the {what} `{value}`, and all versions have the same")]
    OtherVersion { kind: String, version: String, file: String, what: &'static str, value: String },
    #[error("the kind {kind} ({file}) has the plural `{plural}` already")]
    Plural { plural: String, kind: String, file: String },
    #[error("there is a controller with the name `{name}` already ({file})")]
    ControllerExists { name: String, file: String, can_be_forced: bool },
    #[error("there is no kind {kind} in `{custom}` of this project, and none is built in as `{builtin}`")]
    Unknown { kind: String, custom: String, builtin: String, elsewhere: Vec<String> },
    #[error("the API server cannot watch the kind {kind}, so it cannot have a controller")]
    Unwatchable { kind: String },
    #[error("the kind {kind} is private in {file}")]
    Private { kind: String, file: String },
    #[error(transparent)]
    Change(#[from] ChangeError),
}

impl CreateError {
    /// Advice for the user.
    pub(super) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Project(error) => return error.hint(),
            Self::Change(error) => return error.hint(),
            Self::Exists { .. } => "use `--force` to write it again".to_owned(),
            Self::FileExists { can_be_forced: true, .. } => {
                "use `--force` to write it again, or move it away".to_owned()
            }
            Self::FileExists { .. } => "give it another name, or move it away".to_owned(),
            Self::Shared { kind, .. } => {
                format!("delete the types of {kind} there, and create it without `--force`")
            }
            Self::OtherVersion { what, .. } => format!("leave out the option for the {what}"),
            Self::Plural { .. } => "choose another one with `--plural`".to_owned(),
            Self::ControllerExists { can_be_forced: true, .. } => {
                "use `--force` to write it again, or give the new one a name with `--controller-name`"
                    .to_owned()
            }
            Self::ControllerExists { .. } => {
                "give the new one another name with `--controller-name`".to_owned()
            }
            Self::Unknown { elsewhere, .. } if !elsewhere.is_empty() => {
                format!("there is one in `{}`", elsewhere.join("` and `"))
            }
            Self::Unknown { .. } => "leave out `--no-resource` to create the kind".to_owned(),
            Self::Private { kind, .. } => format!("write `pub struct` for the spec of {kind}"),
            Self::Read { .. } | Self::Group { .. } | Self::Unwatchable { .. } => return None,
        };
        Some(hint)
    }
}

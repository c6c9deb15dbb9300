//! Why a client could not do what it was asked to, in words that name it.

use std::error::Error as StdError;
use std::fmt;

use bowline_cache::{CacheError, ObjectKey};
use kube::core::Status;

use super::request::is_missing_object;
use crate::error::{chain, describe};
use crate::leader_election::FenceClosed;
use crate::{BoxError, Error, MapperError};

/// What a client was asked to do: printed as `update deployments.apps/v1 web/a (status)`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operation {
    /// What was to be done.
    pub verb: Verb,
    /// With objects of which kind, as [`Kind`](bowline_cache::Kind) shows itself.
    pub kind: String,
    /// With which one, if it is about one. The name is empty where the server was to make it.
    pub key: Option<ObjectKey>,
    /// Through which subresource.
    pub subresource: Option<String>,
}

/// What can be done with objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[expect(missing_docs, reason = "they are the verbs of the API")]
pub enum Verb {
    Get,
    List,
    Create,
    Update,
    Patch,
    Apply,
    Delete,
    DeleteAllOf,
}

/// Why a client could not do what it was asked to.
///
/// What the server said is kept whole, as its [`Status`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server said no, or the cache has no such object.
    #[error("{operation}: {}", said(.status))]
    Status {
        /// What was to be done.
        operation: Box<Operation>,
        /// What the server said.
        status: Box<Status>,
    },
    /// The server was not reached, or its answer did not come: of a write, it is not known whether it was done.
    #[error("{operation}: no answer from the API server: {}", describe(&**.source))]
    Transport {
        /// What was to be done.
        operation: Box<Operation>,
        /// What went wrong.
        #[source]
        source: BoxError,
    },
    /// The server answered something that cannot be read, or the cache has it packed. A write was done.
    #[error("{operation}: the answer cannot be read: {problem}")]
    Answer {
        /// What was to be done.
        operation: Box<Operation>,
        /// What is wrong with it.
        problem: String,
    },
    /// The server was not asked, since this cannot be right.
    #[error("{operation}: {problem}")]
    Invalid {
        /// What was to be done.
        operation: Box<Operation>,
        /// What is wrong, and what to do about it.
        problem: String,
    },
    /// The cache cannot tell.
    #[error("{operation}: {source}")]
    Cache {
        /// What was to be done.
        operation: Box<Operation>,
        /// Why it cannot.
        #[source]
        source: Box<CacheError>,
    },
    /// It is not known where objects of the kind are.
    #[error(transparent)]
    Mapper(#[from] MapperError),
}

impl ClientError {
    /// What the server said, if it said anything.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status { status, .. } => Some(status),
            _ => None,
        }
    }

    /// What was to be done.
    #[must_use]
    pub fn operation(&self) -> Option<&Operation> {
        match self {
            Self::Status { operation, .. }
            | Self::Transport { operation, .. }
            | Self::Answer { operation, .. }
            | Self::Invalid { operation, .. }
            | Self::Cache { operation, .. } => Some(operation),
            Self::Mapper(_) => None,
        }
    }

    /// The HTTP status that the server answered with.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    /// Whether there is no such object, or no such kind.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(Status::is_not_found)
    }

    /// Whether there is such an object already.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(Status::is_already_exists)
    }

    /// Whether the object was changed since it was read: it has to be read again.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.is_conflict() && !status.is_already_exists())
    }

    /// Whether fields that are applied belong to somebody else. It is a [conflict](Self::is_conflict) as well, and one that
    /// reading again does not end: [force](crate::Apply::force) it, or leave the fields to their owner.
    #[must_use]
    pub fn is_field_conflict(&self) -> bool {
        self.status().is_some_and(is_about_fields)
    }

    /// Whether there is no object of the name that was asked for. Not so if there is no such kind, or no such namespace.
    #[must_use]
    pub fn is_missing_object(&self) -> bool {
        let Self::Status { operation, status } = self else { return false };
        operation.key.as_ref().is_some_and(|key| is_missing_object(status, key))
    }

    /// Whether this is not allowed.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(Status::is_forbidden)
    }

    /// Whether the object is not valid.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.status().is_some_and(Status::is_invalid)
    }

    /// Whether the very same may succeed later. Not so for a conflict: what is sent has to be another then.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Transport { source, .. } => !chain(&**source).any(<dyn StdError>::is::<FenceClosed>),
            Self::Status { status, .. } => matches!(status.code, 408 | 429 | 500 | 502 | 503 | 504),
            Self::Cache { source, .. } => {
                matches!(
                    **source,
                    CacheError::NotSynced(_) | CacheError::NotStarted { .. } | CacheError::Removed { .. }
                )
            }
            Self::Mapper(error) => error.is_retryable(),
            Self::Answer { .. } | Self::Invalid { .. } => false,
        }
    }

    /// There is no such object, in the words of a server.
    pub(super) fn not_found(operation: Operation, resource: &kube::core::ApiResource) -> Self {
        let name = operation.key.as_ref().map(|key| key.name().to_owned()).unwrap_or_default();
        let group = if resource.group.is_empty() { String::new() } else { format!(".{}", resource.group) };
        let message = format!("{}{group} \"{name}\" not found", resource.plural);
        let details = kube::core::response::StatusDetails {
            name,
            group: resource.group.clone(),
            kind: resource.plural.clone(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        };
        let status = Status::failure(&message, "NotFound").with_code(404).with_details(details);
        Self::Status { operation: Box::new(operation), status: Box::new(status) }
    }
}

/// An error in which a [`ClientError`] may be found: its own, or one that holds it as a source.
pub trait Conflict {
    /// Whether it is, or was caused by, a conflict between writers that ends when the object is read again. That fields
    /// [belong to somebody else](ClientError::is_field_conflict) is none.
    fn is_conflict(&self) -> bool;
}

impl Conflict for ClientError {
    fn is_conflict(&self) -> bool {
        self.status().is_some_and(ends_when_read_again)
    }
}

impl Conflict for Error {
    fn is_conflict(&self) -> bool {
        self.find::<ClientError>().is_some_and(Conflict::is_conflict)
            || self.find::<kube::Error>().is_some_and(Conflict::is_conflict)
    }
}

impl Conflict for kube::Error {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(status) if ends_when_read_again(status))
    }
}

impl Conflict for BoxError {
    fn is_conflict(&self) -> bool {
        let mut source: Option<&(dyn StdError + 'static)> = Some(&**self);
        while let Some(error) = source {
            let is_conflict = error.downcast_ref::<ClientError>().is_some_and(Conflict::is_conflict)
                || error.downcast_ref::<kube::Error>().is_some_and(Conflict::is_conflict);
            if is_conflict {
                return true;
            }
            source = error.source();
        }
        false
    }
}

fn ends_when_read_again(status: &Status) -> bool {
    status.is_conflict() && !status.is_already_exists() && !is_about_fields(status)
}

fn is_about_fields(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_conflict() && causes.any(|cause| cause.reason == "FieldManagerConflict")
}

/// What may be taken for a success.
pub trait IgnoreErrors<T> {
    /// `None` instead of an error that says that there is [no such object](ClientError::is_missing_object). That there is no
    /// such kind is an error still.
    ///
    /// # Errors
    /// All others.
    fn ignore_not_found(self) -> Result<Option<T>, ClientError>;

    /// `None` instead of an error that says that there is such an object already.
    ///
    /// # Errors
    /// All others.
    fn ignore_already_exists(self) -> Result<Option<T>, ClientError>;
}

impl<T> IgnoreErrors<T> for Result<T, ClientError> {
    fn ignore_not_found(self) -> Result<Option<T>, ClientError> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_missing_object() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn ignore_already_exists(self) -> Result<Option<T>, ClientError> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_already_exists() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.kind)?;
        match &self.key {
            Some(key) if key.name().is_empty() => {
                write!(f, " in namespace {}", key.namespace().unwrap_or_default())?;
            }
            Some(key) => write!(f, " {key}")?,
            None => {}
        }
        match &self.subresource {
            Some(subresource) => write!(f, " ({subresource})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::DeleteAllOf => "delete all of",
        })
    }
}

/// What a server said. Its message names the object too, and stays as it is: people look for it.
fn said(status: &Status) -> String {
    let Status { message, reason, code, .. } = status;
    match (message.is_empty(), reason.is_empty()) {
        (false, false) => format!("{message} ({code} {reason})"),
        (false, true) => format!("{message} ({code})"),
        (true, false) => format!("{code} {reason}"),
        (true, true) => code.to_string(),
    }
}

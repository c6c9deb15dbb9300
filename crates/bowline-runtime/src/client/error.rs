//! Errors of the client. Each names the operation and the object.

use std::error::Error as StdError;
use std::fmt;

use bowline_cache::{CacheError, ObjectKey};
use kube::core::Status;

use super::request::is_missing_object;
use crate::error::{chain, describe, has_status};
use crate::finalizer::FinalizerError;
use crate::leader_election::FenceClosed;
use crate::transport::{CredentialsError, RequestError};
use crate::{BoxError, EnsureError, Error, MapperError, UpdateStatusError};

/// An operation of a client: printed as `update deployments.apps/v1 web/a (status)`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operation {
    /// The verb.
    pub verb: Verb,
    /// The kind of the objects, as [`Kind`](bowline_cache::Kind) prints it.
    pub kind: String,
    /// The object, if it is about one. The name is empty if the server was to generate it.
    pub key: Option<ObjectKey>,
    /// The subresource, if it is about one.
    pub subresource: Option<String>,
}

/// A verb of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[expect(missing_docs, reason = "they are the verbs of the API")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Apply,
    Delete,
    DeleteAllOf,
}

/// An error of a client.
///
/// An error response is kept whole, as its [`Status`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server refused the request, or the cache has no such object.
    #[error("{operation}: {}", said(.status))]
    Status {
        /// The operation.
        operation: Box<Operation>,
        /// The server's response.
        #[source]
        status: Box<Status>,
    },
    /// There was no connection to the server, or no response. The outcome of a write is unknown.
    #[error("{operation}: no answer from the API server: {}", describe(&**.source))]
    Transport {
        /// The operation.
        operation: Box<Operation>,
        /// The cause.
        #[source]
        source: BoxError,
    },
    /// The response cannot be decoded, or the cache has the object packed. A write was done.
    #[error("{operation}: cannot decode the response: {problem}")]
    Answer {
        /// The operation.
        operation: Box<Operation>,
        /// The decoder's error, without values.
        problem: String,
    },
    /// The request cannot be valid, so that it was not sent.
    #[error("{operation}: {problem}")]
    Invalid {
        /// The operation.
        operation: Box<Operation>,
        /// The mistake, and the remedy.
        problem: String,
    },
    /// The cache cannot answer.
    #[error("{operation}: {source}")]
    Cache {
        /// The operation.
        operation: Box<Operation>,
        /// The reason.
        #[source]
        source: Box<CacheError>,
    },
    /// The resource of the kind is unknown.
    #[error(transparent)]
    Mapper(#[from] MapperError),
}

impl ClientError {
    /// The server's response, if the error is one.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status { status, .. } => Some(status),
            _ => None,
        }
    }

    /// The operation that failed.
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

    /// The HTTP status of the response.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    /// Whether the object or its kind does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(Status::is_not_found)
    }

    /// Whether the object to create exists already.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(Status::is_already_exists)
    }

    /// Whether the object changed since it was read: read it again.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.is_conflict() && !status.is_already_exists())
    }

    /// Whether applied fields have another owner. This is a [conflict](Self::is_conflict) as well, but reading again does not
    /// resolve it: [force](crate::Apply::force) the apply, or leave the fields to their owner.
    #[must_use]
    pub fn is_field_conflict(&self) -> bool {
        self.status().is_some_and(is_about_fields)
    }

    /// Whether the named object does not exist. False if its kind or its namespace does not exist.
    #[must_use]
    pub fn is_missing_object(&self) -> bool {
        let Self::Status { operation, status } = self else { return false };
        operation.key.as_ref().is_some_and(|key| is_missing_object(status, key))
    }

    /// Whether the client lacks the right to do this.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(Status::is_forbidden)
    }

    /// Whether the server found the object invalid.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.status().is_some_and(Status::is_invalid)
    }

    /// Whether a resource version or a continue token is too old for the server (410): list or watch from the start.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.code() == Some(410)
    }

    /// Whether a disruption budget forbids an [eviction](crate::Client::evict) now. A later try may succeed. False for a 429
    /// of a busy server.
    #[must_use]
    pub fn is_blocked_by_disruption_budget(&self) -> bool {
        self.status().is_some_and(|status| {
            let mut causes = status.details.iter().flat_map(|details| &details.causes);
            status.code == 429 && causes.any(|cause| cause.reason == "DisruptionBudget")
        })
    }

    /// Whether the same request may succeed later. False for a conflict, which needs another request.
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

    /// Whether it is certain that the request was not sent.
    pub(super) fn is_unsent(&self) -> bool {
        let Self::Transport { source, .. } = self else { return false };
        chain(&**source).any(|error| {
            let request = error.downcast_ref::<RequestError>();
            let is_early = |error: &RequestError| !matches!(error, RequestError::Timeout { .. });
            error.is::<CredentialsError>() || request.is_some_and(is_early)
        })
    }

    /// The error of a missing object, with a server's text.
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

/// An error that may be a conflict, for [`Client::retry_on_conflict`](crate::Client::retry_on_conflict).
pub trait Conflict {
    /// Whether it is, or was caused by, a conflict that ends when the object is read again. False for a
    /// [field conflict](ClientError::is_field_conflict).
    fn is_conflict(&self) -> bool;
}

impl Conflict for ClientError {
    fn is_conflict(&self) -> bool {
        has_status(self, ends_when_read_again)
    }
}

impl Conflict for EnsureError {
    fn is_conflict(&self) -> bool {
        has_status(self, ends_when_read_again)
    }
}

impl Conflict for UpdateStatusError {
    fn is_conflict(&self) -> bool {
        has_status(self, ends_when_read_again)
    }
}

impl Conflict for FinalizerError {
    fn is_conflict(&self) -> bool {
        has_status(self, ends_when_read_again)
    }
}

impl Conflict for kube::Error {
    fn is_conflict(&self) -> bool {
        has_status(self, ends_when_read_again)
    }
}

impl Conflict for Error {
    fn is_conflict(&self) -> bool {
        has_status(self.as_std(), ends_when_read_again)
    }
}

impl Conflict for BoxError {
    fn is_conflict(&self) -> bool {
        has_status(&**self, ends_when_read_again)
    }
}

fn ends_when_read_again(status: &Status) -> bool {
    status.is_conflict() && !status.is_already_exists() && !is_about_fields(status)
}

fn is_about_fields(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_conflict() && causes.any(|cause| cause.reason == "FieldManagerConflict")
}

/// Results in which an error may count as a success.
pub trait IgnoreErrors<T> {
    /// `None` instead of the error that the [object does not exist](ClientError::is_missing_object). A missing kind stays an
    /// error.
    ///
    /// # Errors
    /// All others.
    fn ignore_not_found(self) -> Result<Option<T>, ClientError>;

    /// `None` instead of the error that the object exists already.
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
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::DeleteAllOf => "delete all of",
        })
    }
}

/// The text of a response. The server's message is not changed, because people search for it.
fn said(status: &Status) -> String {
    let Status { message, reason, code, .. } = status;
    match (message.is_empty(), reason.is_empty()) {
        (false, false) => format!("{message} ({code} {reason})"),
        (false, true) => format!("{message} ({code})"),
        (true, false) => format!("{code} {reason}"),
        (true, true) => code.to_string(),
    }
}

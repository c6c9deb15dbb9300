//! Patches that know nothing of a schema: JSON patches (RFC 6902) and merge patches (RFC 7386), as kube-apiserver applies
//! them. Where it strays from the RFCs, so does this: it uses `evanphx/json-patch`.

mod json;
mod merge;
mod operation;

use serde_json::Value;

pub use json::JsonPatch;
pub use merge::MergePatch;

use crate::go_text::go_kind;
use crate::{JsonError, MAX_JSON_DEPTH, Status};

/// How many operations a JSON patch may have.
pub const MAX_JSON_PATCH_OPERATIONS: usize = 10_000;

/// How many bytes of JSON all `copy` operations of a JSON patch may add together.
pub const MAX_JSON_PATCH_COPY: usize = 3 * 1024 * 1024;

/// Why a patch is none, or does not apply. In every case nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The body is no patch.
    #[error("{message}")]
    Malformed {
        /// In the words of kube-apiserver.
        message: String,
    },
    /// A JSON patch with more than [`MAX_JSON_PATCH_OPERATIONS`] operations.
    #[error("The allowed maximum operations in a JSON patch is {MAX_JSON_PATCH_OPERATIONS}, got {count}")]
    TooManyOperations {
        /// How many it has.
        count: usize,
    },
    /// An operation of a JSON patch that cannot be done on this object, or a test that failed.
    #[error("{message}")]
    DoesNotApply {
        /// In the words of `evanphx/json-patch`. kube-apiserver keeps them to itself.
        message: String,
    },
    /// An operation of a JSON patch that would make the object deeper than any that can be read.
    #[error(
        "operation {operation} of the patch would nest objects and lists more than {MAX_JSON_DEPTH} levels deep"
    )]
    TooDeep {
        /// Which one, counted from 0.
        operation: usize,
    },
}

impl PatchError {
    /// What kube-apiserver answers: 400, 413, and 422 for a patch that does not apply, without saying why. One that
    /// goes too deep is told so, also with 422.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Malformed { message } => Status::bad_request(message),
            Self::TooManyOperations { .. } => Status::too_large(format!("Request entity too large: {self}")),
            Self::DoesNotApply { .. } => {
                unprocessable("the server rejected our request due to an error in our request")
            }
            Self::TooDeep { .. } => unprocessable(&self.to_string()),
        }
    }

    fn malformed(message: impl Into<String>) -> Self {
        Self::Malformed { message: message.into() }
    }

    /// As strict decoding tells it.
    fn undecodable(error: impl std::fmt::Display) -> Self {
        Self::malformed(format!("error decoding patch: {error}"))
    }
}

/// The body of a patch that is no JSON, where it was not decoded strictly.
impl From<JsonError> for PatchError {
    fn from(error: JsonError) -> Self {
        Self::malformed(error.to_string())
    }
}

fn unprocessable(message: &str) -> Status {
    let mut status = Status::failure(422, "Invalid", message);
    status.details = Some(Box::default());
    status
}

/// What Go says about a value that does not fit a type.
fn mistyped(value: &Value, into: &str) -> String {
    format!("json: cannot unmarshal {} into Go {into}", go_kind(value))
}

#[cfg(test)]
mod tests;

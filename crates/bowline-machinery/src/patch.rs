//! Patches without a schema: JSON patches (RFC 6902) and merge patches (RFC 7386), with the same deviations from the
//! RFCs as kube-apiserver, which uses `evanphx/json-patch`.

mod json;
mod merge;
mod operation;

use serde_json::Value;

pub use json::JsonPatch;
pub use merge::MergePatch;

use crate::go_text::go_kind;
use crate::{JsonError, MAX_JSON_DEPTH, Status};

/// Maximum number of operations of a JSON patch.
pub const MAX_JSON_PATCH_OPERATIONS: usize = 10_000;

/// Maximum bytes of JSON that all `copy` operations of a JSON patch may add together.
pub const MAX_JSON_PATCH_COPY: usize = 3 * 1024 * 1024;

/// Maximum work of a JSON patch, in visited values: some tenths of a second. Kubernetes has no such limit, but its
/// servers have more cores. A patch can move the largest object a few times, or one of 1,000 values 20,000 times.
pub const MAX_JSON_PATCH_WORK: usize = 20_000_000;

/// A body is not a patch, or a patch does not apply. Nothing is changed in either case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The body is not a patch.
    #[error("{message}")]
    Malformed {
        /// The message of kube-apiserver.
        message: String,
    },
    /// A JSON patch with more than [`MAX_JSON_PATCH_OPERATIONS`] operations.
    #[error("The allowed maximum operations in a JSON patch is {MAX_JSON_PATCH_OPERATIONS}, got {count}")]
    TooManyOperations {
        /// The number of operations.
        count: usize,
    },
    /// An operation of a JSON patch fails on this object, or a `test` does not hold.
    #[error("{message}")]
    DoesNotApply {
        /// The message of `evanphx/json-patch`. kube-apiserver does not return it.
        message: String,
    },
    /// An operation of a JSON patch would nest the object deeper than the parser accepts.
    #[error(
        "operation {operation} of the patch would nest objects and lists more than {MAX_JSON_DEPTH} levels deep"
    )]
    TooDeep {
        /// The index of the operation, from 0.
        operation: usize,
    },
    /// The operations of a JSON patch move or visit more than [`MAX_JSON_PATCH_WORK`] values together.
    #[error(
        "operation {operation} of the JSON patch exceeds the allowed work on one object: send fewer operations on long lists"
    )]
    TooMuchWork {
        /// The index of the operation that exceeds the limit, from 0.
        operation: usize,
    },
}

impl PatchError {
    /// The response of kube-apiserver: 400, 413, or 422 without a reason for a patch that does not apply. A patch that
    /// nests too deep gets 422 with a reason.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Malformed { message } => Status::bad_request(message),
            Self::TooManyOperations { .. } | Self::TooMuchWork { .. } => {
                Status::too_large(format!("Request entity too large: {self}"))
            }
            Self::DoesNotApply { .. } => {
                unprocessable("the server rejected our request due to an error in our request")
            }
            Self::TooDeep { .. } => unprocessable(&self.to_string()),
        }
    }

    fn malformed(message: impl Into<String>) -> Self {
        Self::Malformed { message: message.into() }
    }

    /// In the form that strict decoding reports.
    fn undecodable(error: impl std::fmt::Display) -> Self {
        Self::malformed(format!("error decoding patch: {error}"))
    }
}

/// A body that is not JSON, outside of strict decoding.
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

/// Go's message for a value of the wrong type.
fn mistyped(value: &Value, into: &str) -> String {
    format!("json: cannot unmarshal {} into Go {into}", go_kind(value))
}

#[cfg(test)]
mod tests;

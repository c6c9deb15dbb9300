//! Field paths and validation errors, with the messages of Kubernetes.

mod error;
mod path;

pub use error::{FieldError, FieldErrorKind};
pub use path::FieldPath;

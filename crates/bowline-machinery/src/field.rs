//! Where in an object something is, and what is wrong with it there: the errors that validation gives, worded as
//! Kubernetes words them.

mod error;
mod path;

pub use error::{FieldError, FieldErrorKind};
pub use path::FieldPath;

//! What Kubernetes objects are and what may be done with them, without any I/O: everything here is a function of its
//! arguments. Objects are [`serde_json::Value`]s; a kind is data, not a type.

pub mod facts;
mod field;
mod resource;
mod status;

pub use field::{FieldError, FieldErrorKind, FieldPath};
pub use resource::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use status::{Status, StatusCause, StatusDetails};

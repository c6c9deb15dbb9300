//! Options that a client applies to each of its requests.

use std::sync::Arc;

/// Handling of unknown and duplicate fields in objects that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FieldValidation {
    /// The server drops the fields.
    Ignore,
    /// The server drops the fields and sends a warning.
    Warn,
    /// The server rejects the object.
    Strict,
}

/// Options that a client applies to each of its requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) dry_run: bool,
    pub(crate) field_owner: Option<Arc<str>>,
    pub(crate) field_validation: Option<FieldValidation>,
    pub(crate) namespace: Option<Arc<str>>,
    /// The subresource on which the verbs act.
    pub(crate) subresource: Option<Arc<str>>,
    /// Reads never use the cache.
    pub(crate) is_live: bool,
    /// Reads from the cache do not wait for the client's own writes.
    pub(crate) is_unordered: bool,
}

impl FieldValidation {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Warn => "Warn",
            Self::Strict => "Strict",
        }
    }
}

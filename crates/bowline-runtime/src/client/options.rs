//! What a client is told about all that it does. Owns what becomes of it in a request.

use std::sync::Arc;

/// What the server is to do about fields that it does not know, or that stand twice in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldValidation {
    /// Nothing.
    Ignore,
    /// It warns.
    Warn,
    /// It refuses the object.
    Strict,
}

/// What a client is told about all that it does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) dry_run: bool,
    pub(crate) field_owner: Option<Arc<str>>,
    pub(crate) field_validation: Option<FieldValidation>,
    pub(crate) namespace: Option<Arc<str>>,
    /// Reads ask the server, whatever is cached.
    pub(crate) is_live: bool,
    /// Reads from the cache wait for no write.
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

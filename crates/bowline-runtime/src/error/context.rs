//! Messages in front of an error.

use std::fmt;

use super::{BoxError, Error, Result};

/// Adds a message to an error, or makes an error of `None`.
///
/// It works on results with an [`Error`] or any standard error, and on options. The error stays in the chain of sources: it is
/// printed behind the message, [`Error::find`] finds it, and predicates such as [`Error::is_conflict`] see it.
///
/// It is not part of `bowline::prelude`: `anyhow::Context` has methods of the same names, and a call is ambiguous where both
/// traits are imported.
///
/// ```
/// use bowline_runtime::{ErrorContext as _, Result};
///
/// fn port(text: Option<&str>) -> Result<u16> {
///     let text = text.context("the port is not set")?;
///     text.parse::<u16>().with_context(|| format!("port {text:?} is not valid"))
/// }
/// assert_eq!(port(None).unwrap_err().to_string(), "the port is not set");
/// assert_eq!(port(Some("x")).unwrap_err().to_string(), "port \"x\" is not valid: invalid digit found in string");
/// ```
pub trait ErrorContext<T> {
    /// Adds a message.
    ///
    /// # Errors
    /// The error with the message in front; the message itself for `None`.
    fn context(self, message: impl fmt::Display) -> Result<T>;

    /// Adds a message that is made only for an error.
    ///
    /// # Errors
    /// As [`context`](Self::context).
    fn with_context<M: fmt::Display>(self, message: impl FnOnce() -> M) -> Result<T>;
}

impl<T, E: Into<Error>> ErrorContext<T> for std::result::Result<T, E> {
    fn context(self, message: impl fmt::Display) -> Result<T> {
        self.map_err(|error| error.into().context(message))
    }

    fn with_context<M: fmt::Display>(self, message: impl FnOnce() -> M) -> Result<T> {
        self.map_err(|error| error.into().context(message()))
    }
}

impl<T> ErrorContext<T> for Option<T> {
    fn context(self, message: impl fmt::Display) -> Result<T> {
        self.ok_or_else(|| Error::message(message.to_string()))
    }

    fn with_context<M: fmt::Display>(self, message: impl FnOnce() -> M) -> Result<T> {
        self.ok_or_else(|| Error::message(message().to_string()))
    }
}

pub(super) fn with_message(message: String, source: Error) -> Error {
    Error::from(MessageWithSource { message, source: source.into() })
}

#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct MessageWithSource {
    message: String,
    source: BoxError,
}

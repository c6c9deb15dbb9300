//! Errors of a reconcile: any error, its context, and the mark for errors that a retry cannot fix.

mod context;
mod predicates;

use std::error::Error as StdError;
use std::fmt;

use bowline_cache::internal::{is_auth_error, redacted_text};
pub use context::ErrorContext;
pub use predicates::ErrorPredicates;
use predicates::status_in;
pub(crate) use predicates::{has_status, is_terminal};

/// Any error, in a box.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// A result whose error is [`Error`] by default.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any error: `?` converts every standard error into it.
///
/// `Display` and `Debug` print the error and all its sources in one line, so that `main` can return it.
///
/// ```
/// use bowline_runtime::{ErrorContext as _, Result};
///
/// fn replicas(text: &str) -> Result<u32> {
///     text.parse::<u32>().with_context(|| format!("replicas {text:?} are not a number"))
/// }
/// let error = replicas("many").unwrap_err();
/// assert_eq!(error.to_string(), "replicas \"many\" are not a number: invalid digit found in string");
/// ```
///
/// # Kinds of failure
/// [`is_conflict`](Self::is_conflict), [`is_not_found`](Self::is_not_found) and the others find their cause anywhere in the
/// chain of sources. [`ErrorPredicates`] answers the same questions about every standard error.
///
/// # Other error types
/// `Error` is not a [`std::error::Error`] itself, because every standard error converts into it.
///
/// - In functions that return `Box<dyn Error>`, with or without `Send + Sync`, `?` works.
/// - In functions that return another error type that takes standard errors, such as `anyhow::Error`:
///   `result.map_err(Error::into_std)?`. The chain of sources and the predicates are kept.
/// - From a boxed error, which `anyhow::Error` converts into: [`Error::from_boxed`].
pub struct Error(BoxError);

impl Error {
    /// An error that is only a message.
    #[must_use]
    pub fn message(message: impl Into<String>) -> Self {
        Self(message.into().into())
    }

    /// An error that is in a box already. An `anyhow::Error` converts into one: `Error::from_boxed(error.into())`.
    #[must_use]
    pub fn from_boxed(error: BoxError) -> Self {
        Self(error)
    }

    /// Adds a message in front. The error becomes the source of the message.
    #[must_use]
    pub fn context(self, message: impl fmt::Display) -> Self {
        context::with_message(message.to_string(), self)
    }

    /// The error as a standard error.
    #[must_use]
    pub fn as_std(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.0
    }

    /// Converts it into a standard error with the same text and the same sources, for functions that return `anyhow::Error`
    /// or another error type that takes standard errors.
    #[must_use]
    pub fn into_std(self) -> impl StdError + Send + Sync + 'static {
        StandardError(self.0)
    }

    /// The first `E` in the error and its chain of sources.
    #[must_use]
    pub fn find<E: StdError + 'static>(&self) -> Option<&E> {
        chain(&*self.0).find_map(|error| error.downcast_ref())
    }

    /// Whether the API server refused a write because of a conflict: see [`ErrorPredicates::is_conflict`].
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.as_std().is_conflict()
    }

    /// Whether an object or a kind does not exist: see [`ErrorPredicates::is_not_found`].
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.as_std().is_not_found()
    }

    /// Whether an object exists already: see [`ErrorPredicates::is_already_exists`].
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.as_std().is_already_exists()
    }

    /// Whether the client lacks a right: see [`ErrorPredicates::is_forbidden`].
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.as_std().is_forbidden()
    }

    /// Whether a resource version or a continue token is too old: see [`ErrorPredicates::is_expired`].
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.as_std().is_expired()
    }

    /// Whether a namespace is not cached: see [`ErrorPredicates::is_not_cached`].
    #[must_use]
    pub fn is_not_cached(&self) -> bool {
        self.as_std().is_not_cached()
    }

    /// Whether a retry cannot help: see [`ErrorPredicates::is_terminal`].
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.as_std().is_terminal()
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl From<Error> for BoxError {
    fn from(error: Error) -> Self {
        error.0
    }
}

impl From<Error> for Box<dyn StdError> {
    fn from(error: Error) -> Self {
        error.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&describe(&*self.0))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Marks an error that a retry cannot fix: the object is reconciled again only after a change of it.
///
/// A write of its status or finalizers in the same reconcile is such a change, unless
/// [`for_filter`](crate::ControllerBuilder::for_filter) with [`generation_changed`](crate::predicate::generation_changed) ignores it.
///
/// The mark is found anywhere in an error's chain of sources, so that other error types may wrap it.
///
/// ```
/// use bowline_runtime::{Error, terminal};
///
/// let error = terminal("deploymentName must be set");
/// assert_eq!(error.to_string(), "terminal error: deploymentName must be set");
/// assert!(error.is_terminal());
/// assert!(!Error::message("the network is down").is_terminal());
/// ```
pub fn terminal(error: impl Into<BoxError>) -> Error {
    Error(Box::new(Terminal(TerminalCause(error.into()))))
}

/// The error and its sources, each once, as one line. Secrets in errors of credentials are left out.
pub(crate) fn describe(error: &(dyn StdError + 'static)) -> String {
    let mut line = String::new();
    for error in chain(error) {
        // A client's error prints the server's message, but not as the `Status` prints it.
        let text = status_in(error).map_or_else(|| redacted_text(error), |status| status.message.clone());
        // Many errors print their source in their own text.
        if !line.contains(&text) {
            if !line.is_empty() {
                line.push_str(": ");
            }
            line.push_str(&text);
        }
        if is_auth_error(error) {
            break;
        }
    }
    line
}

/// The error and its sources.
pub(crate) fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(unwrapped(error)), |error| (*error).source().map(unwrapped))
}

fn unwrapped<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    error.downcast_ref::<StandardError>().map_or(error, |standard| &*standard.0)
}

/// From [`Error::into_std`]. It has the text and the sources of the error that it holds, so that nothing is printed twice.
#[derive(Debug)]
struct StandardError(BoxError);

impl fmt::Display for StandardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for StandardError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

/// The mark has two layers. Some error types (`anyhow::Error` is one) expose only the sources of the error that they hold, not
/// its own type; the second layer is such a source.
#[derive(Debug, thiserror::Error)]
#[error("terminal error")]
struct Terminal(#[source] TerminalCause);

#[derive(Debug)]
struct TerminalCause(BoxError);

impl fmt::Display for TerminalCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for TerminalCause {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

#[cfg(test)]
mod tests;

//! What goes wrong in a reconciler: any error, and the mark that says that trying again is of no use.

use std::error::Error as StdError;
use std::fmt;

/// Any error, as a reconciler's is kept.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// A result whose error is [`Error`] unless it is told otherwise.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any error: what `?` turns everything into, for those who need no error type of their own.
///
/// It shows itself with all its sources, in `Debug` too, as `main` does when it fails. It is no
/// [`std::error::Error`] itself, since everything that is one turns into it.
///
/// ```
/// fn read() -> bowline_runtime::Result<u32> {
///     Ok("many".parse::<u32>()?)
/// }
/// assert_eq!(read().unwrap_err().to_string(), "invalid digit found in string");
/// ```
pub struct Error(BoxError);

impl Error {
    /// An error that is only a message.
    #[must_use]
    pub fn message(message: impl Into<String>) -> Self {
        Self(message.into().into())
    }

    /// An error that is in its box already.
    pub(crate) fn from_box(error: BoxError) -> Self {
        Self(error)
    }

    /// The error as such.
    #[must_use]
    pub fn as_std(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.0
    }

    /// The first in the chain of sources that is an `E`, this one included.
    #[must_use]
    pub fn find<E: StdError + 'static>(&self) -> Option<&E> {
        chain(&*self.0).find_map(|error| error.downcast_ref())
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

/// Marks an error as one that trying again does not help against: the object is left alone until something happens to it.
///
/// The mark is found wherever it is in an error's chain of sources, so that error types of one's own may wrap it.
///
/// ```
/// use bowline_runtime::{Error, is_terminal, terminal};
///
/// let error = terminal("deploymentName must be set");
/// assert_eq!(error.to_string(), "terminal error: deploymentName must be set");
/// assert!(is_terminal(error.as_std()));
/// assert!(!is_terminal(Error::message("the network is down").as_std()));
/// ```
pub fn terminal(error: impl Into<BoxError>) -> Error {
    Error(Box::new(Terminal(TerminalCause(error.into()))))
}

/// Whether an error, or one of its sources, is marked as [`terminal`].
#[must_use]
pub fn is_terminal(error: &(dyn StdError + 'static)) -> bool {
    chain(error).any(|error| error.is::<Terminal>() || error.is::<TerminalCause>())
}

/// The error and its sources, each once, as one line.
pub(crate) fn describe(error: &(dyn StdError + 'static)) -> String {
    let mut line = String::new();
    for error in chain(error) {
        let text = error.to_string();
        // Many errors show their source in their own text.
        if line.contains(&text) {
            continue;
        }
        if !line.is_empty() {
            line.push_str(": ");
        }
        line.push_str(&text);
    }
    line
}

/// The error and its sources.
pub(crate) fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// The mark has two layers. Some error types (`anyhow::Error` is one) show only the sources of what they hold, not its
/// own type; the second layer is such a source.
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

//! The kinds of failure that a reconcile handles: conflict, not found, already exists, forbidden, expired, not cached,
//! terminal.

use std::error::Error as StdError;

use bowline_cache::CacheError;
use kube::core::Status;

use super::{Terminal, TerminalCause, chain};

/// The kind of a failure, found anywhere in the chain of sources of any standard error.
///
/// The answer stays the same through [context](super::ErrorContext), [`Client::ensure`](crate::Client::ensure),
/// [`Client::update_status`](crate::Client::update_status), finalizers, `anyhow::Error` and error types that keep their source
/// (`#[from]`, `#[source]` or `#[error(transparent)]` of `thiserror`). [`Error`](crate::Error) has the same methods itself.
///
/// ```
/// use bowline_runtime::{Client, EnsureError, ErrorPredicates as _, ownership::OwnerExt as _};
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
///
/// async fn ensure(client: &Client, config: &ConfigMap) -> Result<bool, EnsureError> {
///     match client.ensure(config.child::<Secret>("token"), |_| {}).await {
///         Ok(_) => Ok(true),
///         // The namespace is gone.
///         Err(error) if error.is_not_found() => Ok(false),
///         Err(error) => Err(error),
///     }
/// }
/// ```
pub trait ErrorPredicates {
    #[doc(hidden)]
    fn as_std_error(&self) -> &(dyn StdError + 'static);

    /// Whether the API server refused a write with a conflict: the object was changed since it was read, or applied fields
    /// belong to another field manager. That an object exists already is not a conflict.
    fn is_conflict(&self) -> bool {
        has_status(self.as_std_error(), |status| status.is_conflict() && !status.is_already_exists())
    }

    /// Whether an object, its namespace or its kind does not exist.
    fn is_not_found(&self) -> bool {
        has_status(self.as_std_error(), Status::is_not_found)
    }

    /// Whether an object to create exists already.
    fn is_already_exists(&self) -> bool {
        has_status(self.as_std_error(), Status::is_already_exists)
    }

    /// Whether the client lacks the right to do this.
    fn is_forbidden(&self) -> bool {
        has_status(self.as_std_error(), Status::is_forbidden)
    }

    /// Whether a resource version or a continue token is too old for the server (410): list or watch from the start.
    fn is_expired(&self) -> bool {
        has_status(self.as_std_error(), |status| status.code == 410)
    }

    /// Whether an object is in a namespace that is [not cached](CacheError::NotCached). Such an error is
    /// [terminal](Self::is_terminal) too: the cached namespaces never change.
    fn is_not_cached(&self) -> bool {
        is_not_cached(self.as_std_error())
    }

    /// Whether a retry cannot help: the error is marked as [`terminal`](crate::terminal), or is
    /// [not cached](Self::is_not_cached).
    fn is_terminal(&self) -> bool {
        is_terminal(self.as_std_error())
    }
}

impl<E: StdError + 'static> ErrorPredicates for E {
    fn as_std_error(&self) -> &(dyn StdError + 'static) {
        self
    }
}

impl ErrorPredicates for dyn StdError + 'static {
    fn as_std_error(&self) -> &(dyn StdError + 'static) {
        self
    }
}

impl ErrorPredicates for dyn StdError + Send + Sync + 'static {
    fn as_std_error(&self) -> &(dyn StdError + 'static) {
        self
    }
}

/// Whether an error or one of its sources is marked as terminal, or says that a namespace is not cached.
pub(crate) fn is_terminal(error: &(dyn StdError + 'static)) -> bool {
    is_not_cached(error) || chain(error).any(|error| error.is::<Terminal>() || error.is::<TerminalCause>())
}

fn is_not_cached(error: &(dyn StdError + 'static)) -> bool {
    chain(error).any(|error| matches!(unboxed(error), Some(CacheError::NotCached { .. })))
}

/// Whether an error or one of its sources is a response of a server of this kind.
pub(crate) fn has_status(error: &(dyn StdError + 'static), is_kind: impl Fn(&Status) -> bool) -> bool {
    chain(error).filter_map(status_in).any(is_kind)
}

/// The status of a server, if the error is one. It is what all errors of clients have in their chain of sources.
pub(super) fn status_in<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Status> {
    unboxed(error)
}

/// A box is a source of its own, with the same text, and hides the type in it.
fn unboxed<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    error.downcast_ref().or_else(|| error.downcast_ref::<Box<E>>().map(|error| &**error))
}

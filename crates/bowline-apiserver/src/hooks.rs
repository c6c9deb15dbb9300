//! Hooks: foreign code that sees requests and watch events, and can delay or fail them. The fault kit (feature `faults`) is the
//! ready-made way to inject faults; a hook is for everything else.

use std::fmt;
use std::pin::Pin;

use bowline_machinery::Status;

use crate::request::Verb;

/// The connection was cut: the client does not learn what became of its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("the connection was cut")]
pub struct Disconnected;

/// A request: its user, its client and its target.
///
/// Requests for health, version, discovery and unknown paths have no resource: all fields about one are empty, and the verb
/// follows from the method alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestInfo {
    /// User name, as authenticated.
    pub user: String,
    /// The `User-Agent` header; empty without one.
    pub user_agent: String,
    /// Path, without the query.
    pub path: String,
    /// Verb, as RBAC has it.
    pub verb: Verb,
    /// API group; empty for the core group.
    pub group: String,
    /// API version, for example `v1`.
    pub version: String,
    /// Plural name of the resource, for example `pods`; empty if the request has no resource.
    pub resource: String,
    /// Subresource, for example `status`.
    pub subresource: Option<String>,
    /// Namespace of the object or collection.
    pub namespace: Option<String>,
    /// Name of the object, if the path has one. A create has it in its body only.
    pub name: Option<String>,
    /// Whether the parameters ask for a dry run. A delete that asks for one in its body is not marked.
    pub dry_run: bool,
}

/// A hook's decision about a request.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// The request proceeds.
    #[default]
    Proceed,
    /// The server answers with this error.
    Fail(Status),
    /// The server cuts the connection without an answer.
    Disconnect,
}

/// One event of a watch on its way to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchFrame<'a> {
    /// Type: `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub event: &'a str,
    /// Namespace of the object; empty for bookmarks, errors and cluster-scoped objects.
    pub namespace: &'a str,
    /// Name of the object; empty for bookmarks and errors.
    pub name: &'a str,
    /// Revision of the event.
    pub revision: u64,
}

/// A hook's decision about an event of a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameVerdict {
    /// The event is sent.
    #[default]
    Send,
    /// The event is lost and the watch goes on. No real server does this.
    Skip,
    /// The watch ends in order, as when its time is over.
    Close,
    /// The connection is cut.
    Disconnect,
}

/// A future that a hook returns.
pub type HookFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Sees every request: lets it pass, fails it or cuts the connection. A slow hook delays only that request.
///
/// For one request, the server calls [`before_request`](Self::before_request), then [`after_commit`](Self::after_commit) if
/// the request wrote something, or [`before_frame`](Self::before_frame) for each event if it is a watch. By default each method
/// lets everything pass.
///
/// # Not seen by a hook
/// - Requests on a socket with a wrong token: their user is unknown.
/// - Writes of the server itself: its first objects, and the consequences of a custom resource definition (its conditions,
///   and the deletion of its objects with it). Watches show these as any other change.
pub trait Hook: Send + Sync + 'static {
    /// Called when user and target of a request are known. The server has not checked yet whether the resource exists and
    /// whether the user may do this, and has not read the body.
    fn before_request<'a>(&'a self, _call: &'a RequestInfo) -> HookFuture<'a, Verdict> {
        Box::pin(std::future::ready(Verdict::Proceed))
    }

    /// Called after a write was committed, before its response. A client that gets an error here does not know that the
    /// write was done.
    ///
    /// Called once for each request that wrote something, also if its response is an error: a deletion of a collection that
    /// failed halfway, or an eviction that failed after it took from a budget. Not called for a write that changed nothing,
    /// and not for a dry run.
    fn after_commit<'a>(&'a self, _call: &'a RequestInfo) -> HookFuture<'a, Verdict> {
        Box::pin(std::future::ready(Verdict::Proceed))
    }

    /// Called before an event of a watch is sent, when all events before it have been sent.
    fn before_frame<'a>(
        &'a self,
        _call: &'a RequestInfo,
        _frame: WatchFrame<'a>,
    ) -> HookFuture<'a, FrameVerdict> {
        Box::pin(std::future::ready(FrameVerdict::Send))
    }
}

impl fmt::Debug for dyn Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

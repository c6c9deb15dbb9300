//! The places where somebody else may look at what happens, delay it, or make it fail.

use std::fmt;
use std::pin::Pin;

use bowline_machinery::Status;

use crate::request::Verb;

/// A connection that was cut: the client does not learn what became of its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("the connection was cut")]
pub struct Disconnected;

/// Who called what.
///
/// Health, version, discovery and paths that lead nowhere are about no resource: all that is said of one is empty then,
/// and the verb follows from the method alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// The user, as authenticated.
    pub user: String,
    /// The client, as it calls itself.
    pub user_agent: String,
    /// As it was asked for, without the query.
    pub path: String,
    /// What is to be done.
    pub verb: Verb,
    /// Empty for the core group.
    pub group: String,
    /// For example `v1`.
    pub version: String,
    /// For example `pods`; empty if it is about none.
    pub resource: String,
    /// For example `status`.
    pub subresource: Option<String>,
    /// Of the object or collection.
    pub namespace: Option<String>,
    /// Of the object.
    pub name: Option<String>,
    /// Whether the parameters say that nothing is to be stored. A deletion with a body says so there.
    pub dry_run: bool,
}

/// What becomes of a request.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// It goes on.
    #[default]
    Proceed,
    /// It is answered with an error.
    Fail(Status),
    /// Its connection is cut, without an answer.
    Disconnect,
}

/// One event of a watch on its way to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchFrame<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub event: &'a str,
    /// Of the object; empty for bookmarks and errors.
    pub namespace: &'a str,
    /// Of the object; empty for bookmarks and errors.
    pub name: &'a str,
    /// The revision of the event.
    pub revision: u64,
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameVerdict {
    /// It is sent.
    #[default]
    Send,
    /// It is lost, and the watch goes on: what no server does, and a client must survive all the same.
    Skip,
    /// The watch ends, as if its time were over.
    Close,
    /// The connection is cut.
    Disconnect,
}

/// A future that a hook returns.
pub type HookFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Looks at every request, and decides what becomes of it. A hook that takes its time delays only what it was asked
/// about.
///
/// Of one request, [`before`](Self::before) comes first, then [`committed`](Self::committed) if it wrote anything, or a
/// [`frame`](Self::frame) for each event if it is a watch. Each method does nothing unless it is implemented.
///
/// # What no hook sees
/// - A request on a socket whose token is wrong: nobody knows who makes it.
/// - What the server writes by itself: what is there from the start, and what follows from a custom resource definition
///   (its conditions, and the deletion of its objects when it goes). A watch shows these as any other change.
pub trait Hook: Send + Sync + 'static {
    /// Before a request is looked at any further than who makes it and what it is about: whether there is such a
    /// resource, and whether the user may do this, is not known yet.
    fn before<'a>(&'a self, _call: &'a Call) -> HookFuture<'a, Verdict> {
        Box::pin(std::future::ready(Verdict::Proceed))
    }

    /// After a write is committed, before its answer: whoever is refused here does not know that it was done.
    ///
    /// Called once for a request, and also if an error is about to be answered although something was written: a
    /// collection of which only some objects could be deleted, or an eviction that took from a budget and failed then.
    /// Not called for what changes nothing, nor for a dry run.
    fn committed<'a>(&'a self, _call: &'a Call) -> HookFuture<'a, Verdict> {
        Box::pin(std::future::ready(Verdict::Proceed))
    }

    /// Before a frame of a watch is sent. Those before it have been sent already.
    fn frame<'a>(&'a self, _call: &'a Call, _frame: WatchFrame<'a>) -> HookFuture<'a, FrameVerdict> {
        Box::pin(std::future::ready(FrameVerdict::Send))
    }
}

impl fmt::Debug for dyn Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

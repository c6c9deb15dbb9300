//! Effects of rules on requests, watches and events, and the errors of failed requests.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_machinery::{GroupResource, Status};
use bowline_storage::Revision;

use super::gate::GateState;
use crate::hooks::{FrameVerdict, HookFuture, RequestInfo, Verdict};

pub(super) type Run = Arc<dyn Fn(RequestInfo) -> HookFuture<'static, ()> + Send + Sync>;
pub(super) type Decide = Arc<Mutex<dyn FnMut(&RequestInfo) -> Verdict + Send>>;

/// The revision that a stale read shows.
///
/// Revisions count the commits of a server, of all resources together: each committed write adds one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StaleRead {
    /// The newest revision when the rule is set: reads stay there until the rule is removed.
    Now,
    /// Exactly this revision, for example one that [`ApiServer::revision`](crate::ApiServer::revision) returned.
    Revision(u64),
    /// This number of commits before the newest revision at the time of each read.
    Behind(u64),
}

#[derive(Clone)]
pub(super) enum Effect {
    Delay(Duration),
    Hold(Arc<GateState>),
    Run(Run),
    Decide(Decide),
    Deny,
    Conflict,
    Fail(Box<Status>),
    Disconnect,
    Expire,
    StaleAt(Revision),
    StaleBehind(u64),
    Silence,
    End(End),
    Frame(FrameVerdict),
}

/// End of an open watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Cut,
    Close,
    Expire,
}

impl fmt::Display for Effect {
    /// Name in the record.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delay(delay) => write!(f, "delay {delay:?}"),
            Self::Hold(_) => f.write_str("hold"),
            Self::Run(_) => f.write_str("run a function"),
            Self::Decide(_) => f.write_str("decide"),
            Self::Deny => f.write_str("deny"),
            Self::Conflict => f.write_str("conflict"),
            Self::Fail(status) => write!(f, "fail {} {}", status.code, status.reason),
            Self::Disconnect => f.write_str("cut"),
            Self::Expire => f.write_str("expire"),
            Self::StaleAt(revision) => write!(f, "stale at revision {revision}"),
            Self::StaleBehind(commits) => write!(f, "stale by {commits} commits"),
            Self::Silence => f.write_str("silence"),
            Self::End(End::Cut) => f.write_str("cut watch"),
            Self::End(End::Close) => f.write_str("close watch"),
            Self::End(End::Expire) => f.write_str("expire watch"),
            Self::Frame(FrameVerdict::Skip) => f.write_str("lose event"),
            Self::Frame(FrameVerdict::Close) => f.write_str("close at event"),
            Self::Frame(_) => f.write_str("cut at event"),
        }
    }
}

/// 403, in the words of RBAC.
pub(super) fn forbidden(info: &RequestInfo) -> Status {
    let RequestInfo { user, verb, group, resource, path, .. } = info;
    let verb = verb.as_str();
    if resource.is_empty() {
        let why = format!("User {user:?} cannot {verb} path {path:?}: denied by a fault rule");
        return Status::forbidden(&GroupResource::new("", ""), "", &why);
    }
    let resource = info.subresource.iter().fold(resource.clone(), |path, name| path + "/" + name);
    let place = match &info.namespace {
        Some(namespace) => format!("in the namespace {namespace:?}"),
        None => "at the cluster scope".to_owned(),
    };
    let why = format!(
        "User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {place}: denied by a fault rule"
    );
    Status::forbidden(&group_resource(info), info.name.as_deref().unwrap_or_default(), &why)
}

/// 409, as for an update with an old resourceVersion.
pub(super) fn conflict(info: &RequestInfo) -> Status {
    let why = "the object has been modified; please apply your changes to the latest version and try again";
    Status::conflict(&group_resource(info), info.name.as_deref().unwrap_or_default(), why)
}

/// 410, for a watch.
pub(super) fn expired() -> Status {
    Status::expired("too old resource version: expired by a fault rule")
}

fn group_resource(info: &RequestInfo) -> GroupResource {
    GroupResource::new(&info.group, &info.resource)
}

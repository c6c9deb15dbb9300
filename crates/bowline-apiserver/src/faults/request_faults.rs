//! Faults of requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_machinery::Status;
use bowline_storage::Revision;

use super::effect::{Effect, StaleRead};
use super::filter::{RequestFilter, Requests, Stage};
use super::gate::{Gate, GateState};
use super::rule::Rule;
use crate::hooks::{RequestInfo, Verdict};

#[expect(clippy::must_use_candidate, reason = "a rule stays in force without its handle")]
impl RequestFilter<Requests> {
    /// The fault comes after the server did the request, before its response. Default: before the server does it.
    ///
    /// Of writes, only those that committed something are selected: no refused write, no dry run, and no write that
    /// changes nothing.
    pub fn before_response(mut self) -> Self {
        self.stage = Stage::Response;
        self
    }

    /// Answers 403 `Forbidden`, in the words of RBAC.
    #[track_caller]
    pub fn deny(self) -> Rule {
        self.set(Effect::Deny)
    }

    /// Answers 409 `Conflict`, as for an update with an old resourceVersion. For 409 `AlreadyExists`, use
    /// [`fail`](Self::fail) with [`Status::already_exists`].
    #[track_caller]
    pub fn conflict(self) -> Rule {
        self.set(Effect::Conflict)
    }

    /// Answers 429 `TooManyRequests`, with `Retry-After` in whole seconds, at least one.
    #[track_caller]
    pub fn too_many_requests(self, retry_after: Duration) -> Rule {
        let seconds = u16::try_from(retry_after.as_secs()).unwrap_or(u16::MAX).max(1);
        self.fail(Status::too_many_requests("too many requests: refused by a fault rule", seconds))
    }

    /// Answers 500 `InternalError`.
    #[track_caller]
    pub fn internal_error(self) -> Rule {
        self.fail(Status::internal("failed by a fault rule"))
    }

    /// Answers with this error.
    #[track_caller]
    pub fn fail(self, status: Status) -> Rule {
        self.set(Effect::Fail(Box::new(status)))
    }

    /// Delays the request. Later rules apply to it too, and delays add up.
    #[track_caller]
    pub fn delay(self, delay: Duration) -> Rule {
        self.set(Effect::Delay(delay))
    }

    /// Holds the request until the gate is released. Later rules apply to it too.
    #[track_caller]
    pub fn hold(self) -> Gate {
        let state = Arc::new(GateState::default());
        let rule = self.set(Effect::Hold(state.clone()));
        Gate::new(rule, state)
    }

    /// Calls a function, and lets the request go on when its future ends: for example another client's write at the worst
    /// moment. Requests of the future are subject to rules too; `times(1)` keeps a rule from applying to its own requests.
    #[track_caller]
    pub fn run<F>(self, function: impl Fn(RequestInfo) -> F + Send + Sync + 'static) -> Rule
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.set(Effect::Run(Arc::new(move |info| Box::pin(function(info)))))
    }

    /// Asks a function what becomes of the request, for faults that depend on more than the selection. The fault counts as
    /// applied if the function does not let the request proceed. The function must not wait.
    #[track_caller]
    pub fn decide(self, function: impl FnMut(&RequestInfo) -> Verdict + Send + 'static) -> Rule {
        self.set(Effect::Decide(Arc::new(Mutex::new(function))))
    }

    /// Cuts the connection before the server does the request: the client does not learn that it was not done.
    #[track_caller]
    pub fn lose_request(mut self) -> Rule {
        self.stage = Stage::Request;
        self.set(Effect::Disconnect)
    }

    /// Cuts the connection after the server did the request: the client does not learn that it was done. Selects as
    /// [`before_response`](Self::before_response).
    #[track_caller]
    pub fn lose_response(mut self) -> Rule {
        self.stage = Stage::Response;
        self.set(Effect::Disconnect)
    }

    /// Answers 410 `Expired`: to the start of a watch with an `ERROR` event, to a list with a continue token with a status
    /// that has a token to go on. Other requests are not selected.
    #[track_caller]
    pub fn expire(mut self) -> Rule {
        self.stage = Stage::Request;
        self.set(Effect::Expire)
    }

    /// Answers a get or a list as of an earlier revision, as an API server does that is behind its peers.
    ///
    /// It covers gets of objects and of the subresources `status` and `scale`, and lists. It does not cover watches
    /// (silence or hold these), pages of a list after the first one (they have the revision of the first), lists at an
    /// exact revision, and what the server reads for a write: its preconditions see the newest state. A read that asks for
    /// at least a revision after the stale one gets 504, as from a server that is behind. A revision that the resource's
    /// history does not have, for example from before the CRD of a custom kind, is a 500 that says so.
    #[track_caller]
    pub fn stale(mut self, read: StaleRead) -> Rule {
        self.stage = Stage::Request;
        let newest =
            self.faults.shared.server.get().map_or(Revision::FIRST, |server| server.store.revision());
        let effect = match read {
            StaleRead::Now => Effect::StaleAt(newest),
            StaleRead::Revision(revision) => Effect::StaleAt(Revision::new(revision)),
            StaleRead::Behind(commits) => Effect::StaleBehind(commits),
        };
        self.set(effect)
    }
}

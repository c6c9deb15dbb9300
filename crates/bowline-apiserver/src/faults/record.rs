//! The record of received requests.

use std::fmt;
use std::ops::Deref;

use bowline_clock::Instant;

use super::filter::{Recorded, RequestFilter, Subject};
use crate::hooks::RequestInfo;

/// One received request. Displays as one line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedRequest {
    pub(super) number: u64,
    /// User, client, verb and target. A create has the name that its body gives.
    pub info: RequestInfo,
    /// The kind of the resource, for example `Deployment`; empty for an unknown resource and for none.
    pub kind: String,
    /// When the request arrived, on the server's clock.
    pub time: Instant,
    /// Its outcome.
    pub outcome: RequestOutcome,
    /// The faults that were applied to it, in their order and each once, for example `conflict`. Faults of a watch and of
    /// its events are added while it is open.
    pub faults: Vec<String>,
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestOutcome {
    /// The server has not answered yet.
    Pending,
    /// The server answered with this HTTP status code. A watch is answered when it begins.
    Answered(u16),
    /// A fault or a hook cut the connection.
    Disconnected,
    /// The client left before the answer. A write may have been done.
    Abandoned,
}

/// Requests from the record, in the order of their arrival. Displays as one line for each.
#[derive(Clone, Debug, Default)]
pub struct RecordedRequests(Vec<RecordedRequest>);

impl RecordedRequest {
    /// The number of the request among all requests of its server, from 1.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The status code, if the server answered.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self.outcome {
            RequestOutcome::Answered(code) => Some(code),
            _ => None,
        }
    }

    fn subject(&self) -> Subject<'_> {
        Subject { info: &self.info, kind: &self.kind, event: None }
    }
}

impl RequestFilter<Recorded> {
    /// The selected requests, as they are now. The record keeps them.
    #[must_use]
    pub fn list(&self) -> RecordedRequests {
        // A copy is searched, because conditions may be foreign code that uses the kit.
        let all: Vec<RecordedRequest> = self.faults.lock().requests.iter().cloned().collect();
        RecordedRequests(
            all.into_iter().filter(|request| self.selection.matches(request.subject())).collect(),
        )
    }

    /// The number of selected requests.
    #[must_use]
    pub fn count(&self) -> usize {
        self.list().len()
    }

    /// The selected requests. The record forgets them: the next call returns those that came since.
    #[must_use]
    pub fn take(&self) -> RecordedRequests {
        let taken = self.list();
        let is_taken = |number: u64| taken.binary_search_by_key(&number, |request| request.number).is_ok();
        self.faults.lock().requests.retain(|request| !is_taken(request.number));
        taken
    }
}

impl Deref for RecordedRequests {
    type Target = [RecordedRequest];

    fn deref(&self) -> &[RecordedRequest] {
        &self.0
    }
}

impl IntoIterator for RecordedRequests {
    type Item = RecordedRequest;
    type IntoIter = std::vec::IntoIter<RecordedRequest>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a RecordedRequests {
    type Item = &'a RecordedRequest;
    type IntoIter = std::slice::Iter<'a, RecordedRequest>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Display for RecordedRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for request in &self.0 {
            writeln!(f, "{request}")?;
        }
        Ok(())
    }
}

impl fmt::Display for RecordedRequest {
    /// For example `#12 1.500s update deployments.apps/status default/web by admin (kube/5): 409; faults: conflict`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, info, time, outcome, faults, .. } = self;
        let seconds = time.duration_since(Instant::ZERO).as_secs_f64();
        write!(f, "#{number} {seconds:.3}s {}", info.verb.as_str())?;
        if info.resource.is_empty() {
            write!(f, " {}", info.path)?;
        } else {
            write!(f, " {}", info.resource)?;
            if !info.group.is_empty() {
                write!(f, ".{}", info.group)?;
            }
            if let Some(subresource) = &info.subresource {
                write!(f, "/{subresource}")?;
            }
            match (&info.namespace, &info.name) {
                (Some(namespace), Some(name)) => write!(f, " {namespace}/{name}")?,
                (Some(namespace), None) => write!(f, " in {namespace}")?,
                (None, Some(name)) => write!(f, " {name}")?,
                (None, None) => {}
            }
        }
        write!(f, " by {}", info.user)?;
        if !info.user_agent.is_empty() {
            write!(f, " ({})", info.user_agent)?;
        }
        write!(f, ": {outcome}")?;
        if faults.is_empty() { Ok(()) } else { write!(f, "; faults: {}", faults.join(", ")) }
    }
}

impl fmt::Display for RequestOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("pending"),
            Self::Answered(code) => write!(f, "{code}"),
            Self::Disconnected => f.write_str("connection cut"),
            Self::Abandoned => f.write_str("client left"),
        }
    }
}

//! The way of one request through the rules. The server calls it in this order:
//!
//! 1. [`Exchange::begin`] when the request arrived, to record it.
//! 2. [`Exchange::before_request`] when its body is there, before it is done.
//! 3. [`Exchange::before_response`] after it was done.
//! 4. [`Exchange::watch`] and [`frame_hook`] if it is a watch.
//! 5. [`Exchange::finish`] with the answer.

use std::sync::Arc;

use bowline_clock::Clock;
use bowline_machinery::Status;
use bowline_storage::Revision;
use bytes::Bytes;
use serde::Deserialize;

use super::Faults;
use super::effect::{Effect, Run, conflict, forbidden};
use super::filter::{Stage, Subject};
use super::frame_hook::FrameHook;
use super::gate::GateState;
use super::open_watch::{OpenWatch, SwitchedFrames, error_event};
use super::record::{RecordedRequest, RequestOutcome};
use super::rule::RuleState;
use crate::body::Body;
use crate::continue_token::ContinueToken;
use crate::hooks::{Hook, RequestInfo, Verdict};
use crate::query::Query;
use crate::read;
use crate::request::Verb;
use crate::server::{ApiResponse, Failure, Inner, obey};

/// Decisions of the rules about the rest of a request. They travel with its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestFaults {
    /// The number of the request.
    number: u64,
    /// Reads are answered as of this revision.
    pub(crate) stale_at: Option<Revision>,
}

/// A request in progress. Dropped without [`finish`](Self::finish), it is recorded as abandoned by its client.
pub(crate) struct Exchange {
    faults: Faults,
    number: u64,
    info: RequestInfo,
    kind: String,
    clock: Clock,
    is_finished: bool,
}

/// A wait of a request.
enum Wait {
    Delay(std::time::Duration),
    Gate(Arc<GateState>),
    Run(Run),
}

impl Exchange {
    /// Records a request.
    pub(crate) fn begin(faults: &Faults, inner: &Inner, info: &RequestInfo, query: &mut Query) -> Self {
        let resource = inner.registry.find(&info.group, &info.version, &info.resource);
        let kind = resource.map(|resource| resource.gvk.kind.clone()).unwrap_or_default();
        let mut state = faults.lock();
        state.last_request += 1;
        let number = state.last_request;
        state.requests.push_back(RecordedRequest {
            number,
            info: info.clone(),
            kind: kind.clone(),
            time: inner.clock.now(),
            outcome: RequestOutcome::Pending,
            faults: Vec::new(),
        });
        while state.requests.len() > faults.shared.max_requests {
            state.requests.pop_front();
            state.dropped_requests += 1;
        }
        drop(state);
        query.faults.number = number;
        Self {
            faults: faults.clone(),
            number,
            info: info.clone(),
            kind,
            clock: inner.clock.clone(),
            is_finished: false,
        }
    }

    /// Applies the rules before the request is done. All are chosen now; then come the delays, gates and functions in the
    /// order of their rules, and then the first rule that ends the request.
    pub(crate) async fn before_request(&mut self, query: &mut Query, body: &Bytes) -> Result<(), Failure> {
        self.take_name(body);
        self.apply(Stage::Request, query).await
    }

    /// The same after the request was done. `committed` says whether a write changed something.
    pub(crate) async fn before_response(&self, committed: bool) -> Result<(), Failure> {
        let is_read = matches!(self.info.verb, Verb::Get | Verb::List | Verb::Watch);
        // Rules of this stage do not use parameters.
        let mut query = Query::default();
        if is_read || committed { self.apply(Stage::Response, &mut query).await } else { Ok(()) }
    }

    /// The body of a watch, which rules can end and silence.
    pub(crate) fn watch(&self, answer: ApiResponse) -> ApiResponse {
        if self.info.verb != Verb::Watch {
            return answer;
        }
        let body = answer.body.map_frames(|frames| {
            let watch = Arc::new(OpenWatch::new(self.number, self.info.clone(), self.kind.clone()));
            for rule in self.faults.open(&watch) {
                if rule.selects(Stage::Watch, watch.subject())
                    && matches!(rule.effect, Effect::Silence)
                    && rule.fire(&self.faults)
                {
                    self.faults.note(self.number, &rule);
                    watch.silence(rule);
                }
            }
            SwitchedFrames::new(frames, watch, self.faults.clone())
        });
        ApiResponse { body, ..answer }
    }

    /// Records the answer.
    pub(crate) fn finish(mut self, answer: &Result<ApiResponse, Failure>) {
        let outcome = match answer {
            Ok(answer) => RequestOutcome::Answered(answer.code),
            Err(Failure::Answer(answer)) => RequestOutcome::Answered(answer.code),
            Err(Failure::Status(status)) => RequestOutcome::Answered(status.code),
            Err(Failure::Disconnected) => RequestOutcome::Disconnected,
        };
        self.end(outcome);
    }

    fn end(&mut self, outcome: RequestOutcome) {
        self.is_finished = true;
        self.faults.lock().update(self.number, |request| request.outcome = outcome);
    }

    /// A create has the name of its object in the body.
    fn take_name(&mut self, body: &Bytes) {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Metadata {
            name: Option<String>,
        }
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
        }
        let is_create = self.info.verb == Verb::Create && self.info.name.is_none();
        if is_create
            && let Ok(Object { metadata: Metadata { name: Some(name) } }) = serde_json::from_slice(body)
        {
            self.info.name = Some(name.clone());
            self.faults.lock().update(self.number, |request| request.info.name = Some(name));
        }
    }

    async fn apply(&self, stage: Stage, query: &mut Query) -> Result<(), Failure> {
        let (waits, end) = self.choose(stage, query);
        for wait in waits {
            match wait {
                Wait::Delay(delay) => self.clock.sleep(delay).await,
                Wait::Gate(gate) => gate.pass().await,
                Wait::Run(run) => run(self.info.clone()).await,
            }
        }
        end
    }

    /// Waits of the request, and its end if a rule ends it.
    fn choose(&self, stage: Stage, query: &mut Query) -> (Vec<Wait>, Result<(), Failure>) {
        let mut waits = Vec::new();
        let subject = Subject { info: &self.info, kind: &self.kind, event: None };
        for rule in self.faults.rules() {
            if !rule.selects(stage, subject) || !self.is_eligible(&rule, query) {
                continue;
            }
            // Until the function has decided, nobody knows whether the rule is applied. Another request waits here, because
            // it would otherwise pass a rule with `times` that lets this request pass in the end.
            let mut decide = match &rule.effect {
                Effect::Decide(decide) => {
                    Some(decide.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
                }
                _ => None,
            };
            if !rule.fire(&self.faults) {
                continue;
            }
            let verdict = decide.as_mut().map(|decide| decide(&self.info));
            if verdict == Some(Verdict::Proceed) {
                rule.passed();
                continue;
            }
            drop(decide);
            let end = match &rule.effect {
                Effect::Delay(delay) => {
                    waits.push(Wait::Delay(*delay));
                    Ok(())
                }
                Effect::Hold(gate) => {
                    waits.push(Wait::Gate(gate.clone()));
                    Ok(())
                }
                Effect::Run(run) => {
                    waits.push(Wait::Run(run.clone()));
                    Ok(())
                }
                Effect::Decide(_) => verdict.map_or(Ok(()), obey),
                Effect::StaleAt(revision) => {
                    query.faults.stale_at = Some(*revision);
                    Ok(())
                }
                Effect::StaleBehind(commits) => {
                    let newest =
                        self.faults.shared.server.get().map_or(0, |server| server.store.revision().get());
                    let at = newest.saturating_sub(*commits).max(Revision::FIRST.get());
                    query.faults.stale_at = Some(Revision::new(at));
                    Ok(())
                }
                Effect::Deny => Err(forbidden(&self.info).into()),
                Effect::Conflict => Err(conflict(&self.info).into()),
                Effect::Fail(status) => Err(Status::clone(status).into()),
                Effect::Disconnect => Err(Failure::Disconnected),
                Effect::Expire => Err(self.expire(query)),
                Effect::Silence | Effect::End(_) | Effect::Frame(_) => continue,
            };
            self.faults.note(self.number, &rule);
            if end.is_err() {
                return (waits, end);
            }
        }
        (waits, Ok(()))
    }

    /// Whether the rule's fault exists for this request.
    fn is_eligible(&self, rule: &RuleState, query: &Query) -> bool {
        let continues = !query.continue_token.is_empty();
        match rule.effect {
            Effect::Expire => match self.info.verb {
                Verb::Watch => true,
                Verb::List => continues,
                _ => false,
            },
            Effect::StaleAt(_) | Effect::StaleBehind(_) => {
                let is_exact = query.resource_version_match == "Exact";
                let is_read = matches!(self.info.verb, Verb::Get | Verb::List);
                is_read && !self.info.resource.is_empty() && !continues && !is_exact
            }
            _ => true,
        }
    }

    fn expire(&self, query: &Query) -> Failure {
        if self.info.verb == Verb::Watch {
            return Failure::Answer(Box::new(ApiResponse::stream(Body::from(error_event()))));
        }
        match ContinueToken::decode(&query.continue_token) {
            Ok(token) => read::expired().with_continue(ContinueToken { at: None, ..token }.encode()).into(),
            Err(status) => status.into(),
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.is_finished {
            // A request that panics is answered with 500.
            let panics = std::thread::panicking();
            self.end(if panics { RequestOutcome::Answered(500) } else { RequestOutcome::Abandoned });
        }
    }
}

/// Decides about the events of a watch: first the server's own hook, then the rules.
pub(crate) fn frame_hook(
    faults: &Faults,
    hook: Option<Arc<dyn Hook>>,
    query: &Query,
    kind: &str,
) -> Arc<dyn Hook> {
    Arc::new(FrameHook { faults: faults.clone(), hook, number: query.faults.number, kind: kind.to_owned() })
}

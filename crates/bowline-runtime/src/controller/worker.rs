//! One worker: takes a request, runs the reconciler, and sees to what comes next. Workers live as long as the controller runs;
//! a reconcile costs no task, no timer unless it waits, and no lock but the queue's and the worker's own.

use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as Poller, Poll};
use std::time::Duration;

use bowline_clock::{Instant, Rng, panic_message};
use bowline_workqueue::Item;
use tracing::Span;
use tracing::field::Empty;

use super::ahead::Ahead;
use super::builder::GaveUp;
use super::error::ControllerError;
use super::pending::Pending;
use super::session::{Core, Session};
use crate::action::Next;
use crate::context::{Context, ReconcileId, ReconcileIds};
use crate::error::{describe, is_terminal};
use crate::journal::{Book, Record, shorten};
use crate::metrics::WorkerMetrics;
use crate::reconciler::Execute;
use crate::trigger::Trigger;
use crate::{Action, BoxError, Cause, Outcome, Request, Triggers};

/// How much of a delay is added at random.
const JITTER: f64 = 0.1;

/// How long a worker goes on without a wait before it lets others have its thread, and for how many requests.
const TURN: (Duration, u32) = (Duration::from_millis(1), 1024);

/// Works until the queue is shut down.
pub(crate) async fn work<X: Execute>(session: Arc<Session>, number: usize, execute: Arc<X>, bound: X::Bound) {
    let rng = session.clock().rng().fork();
    let mut ids = ReconcileIds::new(&rng);
    let worker = Worker {
        rng,
        book: session.core().books[number].clone(),
        metrics: session.core().metrics.worker(),
        shown: Shown::new(session.core()),
        session: &session,
        execute: &*execute,
        bound: &bound,
    };
    let mut ahead = Ahead::new(X::LOOKS_AHEAD, session.core().options.concurrency);
    let mut turn = Turn::default();
    let mut next = session.queue().get().await;
    while let Some(mut item) = next {
        if session.is_stopping() {
            session.leave();
            return;
        }
        if let Some(requests) = ahead.look(session.queue()) {
            execute.expect(&bound, &requests);
        }
        let (then, finished) = worker.run(&mut item, ids.draw(), &mut turn).await;
        next = match then {
            // Whoever has more to do is told at once: one lock and one look at the clock for each reconcile.
            Then::Nothing if !turn.is_over() => item.done_and_get(finished).eager().await,
            Then::Nothing => {
                item.done();
                turn = Turn::default();
                tokio::task::yield_now().await;
                session.queue().get().await
            }
            Then::After(delay) => {
                item.requeue_after(delay);
                session.queue().get().await
            }
            Then::BackOff => {
                item.requeue_rate_limited();
                session.queue().get().await
            }
        };
    }
}

struct Worker<'a, X: Execute> {
    session: &'a Arc<Session>,
    execute: &'a X,
    bound: &'a X::Bound,
    rng: Rng,
    book: Book,
    metrics: Arc<WorkerMetrics>,
    shown: Shown,
}

/// The controller, as the span of each reconcile shows it: see [`Text`].
struct Shown {
    controller: Plain,
    group: Plain,
    kind: Plain,
}

/// Shown as it is, whatever a formatter wants: strings ask it each time how wide they should be.
struct Plain(String);

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a worker did since others could run on its thread. tokio counts this for its own, but ends a turn after 128 requests
/// that wait for nothing: each time it wakes a thread that takes the worker, and finds its caches cold.
#[derive(Default)]
struct Turn {
    took: Duration,
    requests: u32,
}

impl Turn {
    /// One more request was seen to, without a wait.
    fn add(&mut self, took: Duration) {
        self.took += took;
        self.requests += 1;
    }

    fn is_over(&self) -> bool {
        let (took, requests) = TURN;
        self.took >= took || self.requests >= requests
    }
}

/// What becomes of a request after its run.
enum Then {
    Nothing,
    After(Duration),
    BackOff,
}

/// How the reconciler ended.
enum End {
    Returned(Result<Option<Action>, BoxError>),
    Panicked(String),
    TimedOut,
}

/// What is known of a run beside how it ended.
struct Facts {
    span: Span,
    id: ReconcileId,
    started: Instant,
    finished: Instant,
}

/// Something that counts as an error.
struct Failure {
    error: BoxError,
    /// The error and its sources.
    text: String,
    sort: Sort,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Error,
    Terminal,
    Panic,
    Timeout,
}

#[derive(Debug, thiserror::Error)]
#[error("the reconciler panicked: {0}")]
struct Panicked(String);

#[derive(Debug, thiserror::Error)]
#[error("the reconciler was not done within {0:?}")]
struct TimedOut(Duration);

impl Shown {
    fn new(core: &Core) -> Self {
        let [controller, group, kind] =
            [&*core.name, &core.group, &core.kind].map(|name| Plain(format!("{:?}", Text(name))));
        Self { controller, group, kind }
    }
}

impl Failure {
    /// The error is somebody else's code, which may panic when it is asked what it is.
    fn returned(error: BoxError) -> Self {
        match catch_unwind(AssertUnwindSafe(|| (is_terminal(&*error), describe(&*error)))) {
            Ok((is_terminal, text)) => {
                Self { error, text, sort: if is_terminal { Sort::Terminal } else { Sort::Error } }
            }
            Err(panic) => Self::panicked(format!("its error when it was shown: {}", panic_message(&*panic))),
        }
    }

    fn panicked(message: String) -> Self {
        let error = Panicked(message);
        Self { text: error.to_string(), error: error.into(), sort: Sort::Panic }
    }
}

impl<X: Execute> Worker<'_, X> {
    /// One reconcile; what becomes of its request, and when it was over.
    async fn run(
        &self,
        item: &mut Item<'_, Request, Pending>,
        id: ReconcileId,
        turn: &mut Turn,
    ) -> (Then, Instant) {
        let core = &**self.session.core();
        let started = item.since().unwrap_or_else(|| self.session.clock().now());
        let Pending { triggers, failures, .. } = item.payload();
        let request = item.key();
        let span = tracing::info_span!(
            // That of the worker. Not looked for: most of the time there is none.
            parent: self.session.cluster().span(),
            "reconcile",
            // A longer word first: the text that subscribers make of these grows in fewer steps, each of which is felt.
            controllerKind = ?self.shown.kind,
            controllerGroup = ?self.shown.group,
            controller = ?self.shown.controller,
            namespace = ?Text(request.namespace().unwrap_or_default()),
            name = ?Text(request.name()),
            reconcileID = ?id,
            triggers = ?triggers.line(),
            // Most reconciles are the first try and are done: what the rest has besides costs them nothing.
            attempt = (*failures > 0).then(|| failures.saturating_add(1)),
            outcome = Empty,
            error = Empty,
            // What OpenTelemetry calls it, for who exports spans as traces.
            otel.status_code = Empty,
            otel.status_description = Empty,
        );
        triggers.count();
        let context = Context::new(self.session.clone(), triggers.clone(), id, failures.saturating_add(1));
        let (end, has_waited) = {
            let _active = Active::new(&self.metrics);
            let running = pin!(Some(self.execute.execute(self.bound, context, request)));
            self.finish(running, request, &span, started).await
        };
        let finished = self.session.clock().now();
        let took = finished.since(started);
        self.metrics.took(took);
        if has_waited {
            *turn = Turn::default();
        } else {
            turn.add(took);
        }
        let facts = Facts { span, id, started, finished };
        let then = match end {
            End::Returned(Ok(action)) => self.succeeded(item, action, &facts),
            End::Returned(Err(error)) => {
                let failure = facts.span.in_scope(|| Failure::returned(error));
                self.failed(item, &failure, &facts)
            }
            End::Panicked(message) => self.failed(item, &Failure::panicked(message), &facts),
            End::TimedOut => {
                let error = TimedOut(core.options.timeout);
                let text = error.to_string();
                self.failed(item, &Failure { error: error.into(), text, sort: Sort::Timeout }, &facts)
            }
        };
        (then, finished)
    }

    /// Runs the reconciler, as long as it may; how it ended, and whether it waited for something. It stays where it is: what
    /// is moved for each reconcile is felt.
    async fn finish<F>(
        &self,
        mut running: Pin<&mut Option<F>>,
        request: &Request,
        span: &Span,
        started: Instant,
    ) -> (End, bool)
    where
        F: Future<Output = Result<Option<Action>, BoxError>>,
    {
        let mut deadline = None;
        let end = poll_fn(|poller| {
            let Some(reconcile) = running.as_mut().as_pin_mut() else { return Poll::Pending };
            if let Poll::Ready(end) = poll(reconcile, span, poller) {
                return Poll::Ready(end);
            }
            // Only now: most are done at once, and need neither a timer nor a place in the list of those that run.
            let sleep = deadline.get_or_insert_with(|| {
                self.book.open(request, started);
                self.session.clock().sleep_until(started + self.session.core().options.timeout)
            });
            Pin::new(sleep).poll(poller).map(|()| End::TimedOut)
        })
        .await;
        // What it holds may panic when it is dropped, which is no reason to lose the request.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| running.set(None))) {
            let end = End::Panicked(format!("when it was dropped: {}", panic_message(&*panic)));
            return (end, deadline.is_some());
        }
        (end, deadline.is_some())
    }

    fn succeeded(
        &self,
        item: &mut Item<'_, Request, Pending>,
        action: Option<Action>,
        facts: &Facts,
    ) -> Then {
        let metrics = &*self.session.core().metrics;
        let Pending { failures, is_limited, .. } = *item.payload();
        let next = action.map_or(Next::Done, |action| action.next());
        if is_limited && !matches!(next, Next::BackOff) {
            self.session.queue().forget(item.key());
        }
        let outcome = match (action, next) {
            (None, _) => Outcome::Gone,
            (_, Next::Done) => Outcome::Done,
            (_, Next::After(delay)) => Outcome::RequeueAfter(delay),
            (_, Next::BackOff) => Outcome::BackOff,
        };
        // The span is named and not entered: most of the time nobody listens.
        tracing::debug!(parent: &facts.span, ?outcome, "reconciled");
        // The triggers have done their work: nothing comes again because of them.
        let triggers = std::mem::take(&mut item.payload_mut().triggers);
        self.note(item, triggers, outcome, failures, facts);
        if matches!(next, Next::Done) {
            self.metrics.succeeded();
            return Then::Nothing;
        }
        let requeued = Trigger::own(self.session.core().requeued.clone(), Cause::Requeued);
        let is_limited = matches!(next, Next::BackOff);
        *item.payload_mut() = Pending { is_limited, ..Pending::new(requeued) };
        if let Some(priority) = action.and_then(|action| action.chosen_priority()) {
            item.set_priority(priority);
        }
        if let Next::After(delay) = next {
            metrics.requeues_after.inc();
            Then::After(self.rng.jitter(delay, JITTER))
        } else {
            metrics.requeues.inc();
            Then::BackOff
        }
    }

    fn failed(&self, item: &mut Item<'_, Request, Pending>, failure: &Failure, facts: &Facts) -> Then {
        let _entered = facts.span.enter();
        let core = &**self.session.core();
        let Pending { failures, is_limited, .. } = *item.payload();
        let attempt = failures.saturating_add(1);
        core.metrics.failures.inc();
        core.metrics.errors.inc();
        let text = &*failure.text;
        let kept = || shorten(text);
        let is_end = failure.sort == Sort::Panic && !core.options.recover_panics;
        match failure.sort {
            Sort::Error => {}
            Sort::Terminal => drop(core.metrics.terminal_errors.inc()),
            Sort::Panic => drop(core.metrics.panics.inc()),
            Sort::Timeout => drop(core.metrics.timeouts.inc()),
        }
        let is_last = core.options.max_retries.as_ref().filter(|(retries, _)| failures >= *retries);
        let outcome = match (failure.sort, is_last) {
            (Sort::Terminal, _) => {
                tracing::error!(error = text, attempt, "reconciling failed, and is not tried again");
                Outcome::Terminal(kept())
            }
            (_, Some((_, hook))) => {
                tracing::error!(error = text, attempt, "reconciling failed once too often, and is given up");
                let gave_up = GaveUp { request: item.key(), attempts: attempt, error: &*failure.error };
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| hook(&gave_up))) {
                    tracing::error!(panic = panic_message(&*panic), "the hook for what is given up panicked");
                }
                Outcome::GaveUp(kept())
            }
            (Sort::Error, None) => {
                tracing::warn!(error = text, attempt, "reconciling failed, and is tried again");
                Outcome::Failed(kept())
            }
            (Sort::Panic, None) if is_end => {
                tracing::error!(error = text, attempt, "reconciling panicked, and the controller ends");
                Outcome::Panicked(kept())
            }
            (Sort::Panic, None) => {
                tracing::error!(error = text, attempt, "reconciling panicked, and is tried again");
                Outcome::Panicked(kept())
            }
            (Sort::Timeout, None) => {
                tracing::error!(error = text, attempt, "reconciling took too long, and is tried again");
                Outcome::TimedOut
            }
        };
        if is_end {
            self.session.fail(ControllerError::Panicked {
                controller: core.name.to_string(),
                request: item.key().to_string(),
                message: failure.error.to_string(),
            });
        }
        let is_over = matches!(outcome, Outcome::Terminal(_) | Outcome::GaveUp(_));
        self.note(item, item.payload().triggers.clone(), outcome, failures, facts);
        if is_over {
            if is_limited {
                self.session.queue().forget(item.key());
            }
            return Then::Nothing;
        }
        let pending = item.payload_mut();
        pending.failures = attempt;
        pending.is_limited = true;
        Then::BackOff
    }

    fn note(
        &self,
        item: &Item<'_, Request, Pending>,
        triggers: Triggers,
        outcome: Outcome,
        failures: u32,
        facts: &Facts,
    ) {
        if outcome != Outcome::Done {
            mark(&facts.span, &outcome);
        }
        self.book.close(Record {
            request: item.key().clone(),
            triggers,
            attempt: failures.saturating_add(1),
            id: facts.id,
            started: facts.started,
            finished: facts.finished,
            outcome,
        });
    }
}

/// Writes down in the span how a reconcile ended.
fn mark(span: &Span, outcome: &Outcome) {
    if span.is_disabled() {
        return;
    }
    span.record("outcome", outcome.as_str());
    if outcome.is_failure() {
        let text = outcome.to_string();
        span.record("error", &*text);
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_description", &*text);
    }
}

/// Polls the reconciler inside its span; a panic is an end like any other.
fn poll<F>(running: Pin<&mut F>, span: &Span, poller: &mut Poller<'_>) -> Poll<End>
where
    F: Future<Output = Result<Option<Action>, BoxError>>,
{
    let _entered = span.enter();
    match catch_unwind(AssertUnwindSafe(|| running.poll(poller))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(result)) => Poll::Ready(End::Returned(result)),
        Err(panic) => Poll::Ready(End::Panicked(panic_message(&*panic).to_owned())),
    }
}

/// A name, as a field of the span: as it is, which is cheaper than quoted by a good part of what the span costs. One with
/// something in it that names do not have is quoted, so that nobody forges a line of the log.
struct Text<'a>(&'a str);

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // All of them are looked at, without a way out in between: that is done many at a time.
        let others =
            self.0.bytes().map(|byte| u32::from(!byte.is_ascii_graphic() || byte == b'"')).sum::<u32>();
        if others == 0 { f.write_str(self.0) } else { fmt::Debug::fmt(self.0, f) }
    }
}

/// Counts a worker as busy, also when its future is dropped.
struct Active<'a>(&'a WorkerMetrics);

impl<'a> Active<'a> {
    fn new(metrics: &'a WorkerMetrics) -> Self {
        metrics.set_active(true);
        Self(metrics)
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.set_active(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_as_it_is_unless_it_could_be_taken_for_something_else() {
        for name in ["", "web-1.example.com", "system:node:a"] {
            assert_eq!(format!("{:?}", Text(name)), name);
        }
        assert_eq!(format!("{:?}", Text("a name")), r#""a name""#);
        assert_eq!(format!("{:?}", Text("a\nb\u{1b}[0m\"")), r#""a\nb\u{1b}[0m\"""#);
    }
}

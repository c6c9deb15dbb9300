//! One worker: takes a request, runs the reconciler, and handles the outcome. Workers live as long as the controller
//! runs. A reconcile costs no task, no timer unless it awaits, and no lock but the queue's and the worker's own.

use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as Poller, Poll};
use std::time::{Duration, SystemTime};

use bowline_clock::{Instant, Rng, panic_message};
use bowline_workqueue::Item;
use tracing::Span;
use tracing::field::Empty;

use super::ahead::Ahead;
use super::builder::RetriesExhausted;
use super::error::ControllerError;
use super::queue_payload::QueuePayload;
use super::session::{Core, Session};
use crate::action::Next;
use crate::context::{Context, ReconcileId, ReconcileIds};
use crate::error::{describe, is_terminal};
use crate::metrics::WorkerMetrics;
use crate::reconcile_history::{Record, WorkerHistory, cut, shorten};
use crate::reconciler::Execute;
use crate::trigger::Trigger;
use crate::{Action, BoxError, Cause, ReconcileOutcome, Request, Triggers};

/// Maximum bytes of an error in a log line: a server's refusal may quote the whole object, on each retry.
const LOGGED: usize = 4 << 10;

/// Maximum time and requests without an await, before a worker yields its thread.
const TURN: (Duration, u32) = (Duration::from_millis(1), 1024);

/// Works until the queue is shut down.
pub(crate) async fn run_worker<X: Execute>(
    session: Arc<Session>,
    number: usize,
    execute: Arc<X>,
    bound: X::Bound,
) {
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
            // Finish this item and take the next: one lock and one clock read for each reconcile.
            QueueAction::Nothing if !turn.is_over() => item.done_and_get(finished).eager().await,
            QueueAction::Nothing => {
                item.done();
                turn = Turn::default();
                tokio::task::yield_now().await;
                session.queue().get().await
            }
            QueueAction::After(delay) => {
                item.requeue_after(delay);
                session.queue().get().await
            }
            QueueAction::At(time) => {
                // Before the run ends: the next run, which may begin at once, replaces the schedule.
                session.wall_deadlines().set(item.key(), time, item.priority());
                item.done();
                session.queue().get().await
            }
            QueueAction::BackOff => {
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
    book: WorkerHistory,
    metrics: Arc<WorkerMetrics>,
    shown: Shown,
}

/// The controller's fields for the span of each reconcile: see [`Text`].
struct Shown {
    controller: Plain,
    group: Plain,
    kind: Plain,
}

/// Formatted as it is, without width or padding, which `str` checks each time.
struct Plain(String);

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Work since the last yield. tokio's own budget ends a turn after 128 requests that do not await: each time it wakes a
/// thread that steals the worker, with cold caches.
#[derive(Default)]
struct Turn {
    took: Duration,
    requests: u32,
}

impl Turn {
    /// Counts a request that did not await.
    fn add(&mut self, took: Duration) {
        self.took += took;
        self.requests += 1;
    }

    fn is_over(&self) -> bool {
        let (took, requests) = TURN;
        self.took >= took || self.requests >= requests
    }
}

/// Next step of a request after its run.
enum QueueAction {
    Nothing,
    After(Duration),
    At(SystemTime),
    BackOff,
}

/// End of a reconciler.
enum ReconcileEnd {
    Returned(Result<Option<Action>, BoxError>),
    Panicked(String),
    TimedOut,
}

/// Facts of a run beside its outcome.
struct AttemptInfo {
    span: Span,
    id: ReconcileId,
    started: Instant,
    finished: Instant,
}

/// A failure: anything that counts as an error.
struct Failure {
    error: BoxError,
    /// The error and its sources.
    text: String,
    sort: FailureKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FailureKind {
    Error,
    Terminal,
    Panic,
    Timeout,
}

#[derive(Debug, thiserror::Error)]
#[error("the reconciler panicked: {0}")]
struct Panicked(String);

#[derive(Debug, thiserror::Error)]
#[error("the reconcile exceeded its timeout of {0:?}")]
struct TimedOut(Duration);

impl Shown {
    fn new(core: &Core) -> Self {
        let [controller, group, kind] =
            [&*core.name, &core.group, &core.kind].map(|name| Plain(format!("{:?}", Text(name))));
        Self { controller, group, kind }
    }
}

impl Failure {
    /// Formats an error, by foreign code that may panic.
    fn returned(error: BoxError) -> Self {
        match catch_unwind(AssertUnwindSafe(|| (is_terminal(&*error), describe(&*error)))) {
            Ok((is_terminal, text)) => Self {
                error,
                text,
                sort: if is_terminal { FailureKind::Terminal } else { FailureKind::Error },
            },
            Err(panic) => Self::panicked(format!("its error when it was shown: {}", panic_message(&*panic))),
        }
    }

    fn panicked(message: String) -> Self {
        let error = Panicked(message);
        Self { text: error.to_string(), error: error.into(), sort: FailureKind::Panic }
    }
}

impl<X: Execute> Worker<'_, X> {
    /// Runs one reconcile. Returns the request's next step and the end time.
    async fn run(
        &self,
        item: &mut Item<'_, Request, QueuePayload>,
        id: ReconcileId,
        turn: &mut Turn,
    ) -> (QueueAction, Instant) {
        let core = &**self.session.core();
        let started = item.started_at().unwrap_or_else(|| self.session.clock().now());
        let QueuePayload { triggers, failures, .. } = item.payload();
        let request = item.key();
        let span = tracing::info_span!(
            // The worker's own dispatcher. Not looked up: most often there is none.
            parent: self.session.cluster().span(),
            "reconcile",
            // The longest field first: the subscribers' text buffers grow in fewer steps.
            controllerKind = ?self.shown.kind,
            controllerGroup = ?self.shown.group,
            controller = ?self.shown.controller,
            namespace = ?Text(request.namespace().unwrap_or_default()),
            name = ?Text(request.name()),
            // An object of another cluster than the controller's.
            cluster = request.cluster().map(|cluster| tracing::field::debug(Text(cluster.as_str()))),
            reconcileID = ?id,
            triggers = ?triggers.line(),
            // Most reconciles are done at the first attempt, and pay nothing for the fields of the others.
            attempt = (*failures > 0).then(|| failures.saturating_add(1)),
            outcome = Empty,
            error = Empty,
            // Names of OpenTelemetry, for traces.
            otel.status_code = Empty,
            otel.status_description = Empty,
        );
        triggers.count();
        self.session.wall_deadlines().clear(request);
        let context = Context::new(self.session.clone(), triggers.clone(), id, failures.saturating_add(1));
        let (end, has_waited) = {
            let _active = Active::new(&self.metrics);
            let running = pin!(Some(self.execute.execute(self.bound, context, request)));
            self.finish(running, request, &span, started).await
        };
        let finished = self.session.clock().now();
        let took = finished.duration_since(started);
        self.metrics.took(took);
        if has_waited {
            *turn = Turn::default();
        } else {
            turn.add(took);
        }
        let facts = AttemptInfo { span, id, started, finished };
        let then = match end {
            ReconcileEnd::Returned(Ok(action)) => self.succeeded(item, action, &facts),
            ReconcileEnd::Returned(Err(error)) => {
                let failure = facts.span.in_scope(|| Failure::returned(error));
                self.failed(item, &failure, &facts)
            }
            ReconcileEnd::Panicked(message) => self.failed(item, &Failure::panicked(message), &facts),
            ReconcileEnd::TimedOut => {
                let error = TimedOut(core.options.timeout);
                let text = error.to_string();
                self.failed(item, &Failure { error: error.into(), text, sort: FailureKind::Timeout }, &facts)
            }
        };
        (then, finished)
    }

    /// Runs the reconciler up to its timeout. Returns its end, and whether it had to wait. Pinned in place: moving it
    /// for each reconcile is measurable.
    async fn finish<F>(
        &self,
        mut running: Pin<&mut Option<F>>,
        request: &Request,
        span: &Span,
        started: Instant,
    ) -> (ReconcileEnd, bool)
    where
        F: Future<Output = Result<Option<Action>, BoxError>>,
    {
        let mut deadline = None;
        let end = poll_fn(|poller| {
            let Some(reconcile) = running.as_mut().as_pin_mut() else { return Poll::Pending };
            if let Poll::Ready(end) = poll(reconcile, span, poller) {
                return Poll::Ready(end);
            }
            // Only now: most reconciles are done at the first poll, and need neither a timer nor an entry in the list
            // of running ones.
            let sleep = deadline.get_or_insert_with(|| {
                self.book.open(request, started);
                self.session.clock().sleep_until(started + self.session.core().options.timeout)
            });
            Pin::new(sleep).poll(poller).map(|()| ReconcileEnd::TimedOut)
        })
        .await;
        // Dropping it may panic, which must not lose the request.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| running.set(None))) {
            let end = ReconcileEnd::Panicked(format!("when it was dropped: {}", panic_message(&*panic)));
            return (end, deadline.is_some());
        }
        (end, deadline.is_some())
    }

    fn succeeded(
        &self,
        item: &mut Item<'_, Request, QueuePayload>,
        action: Option<Action>,
        facts: &AttemptInfo,
    ) -> QueueAction {
        let metrics = &*self.session.core().metrics;
        let QueuePayload { failures, is_limited, .. } = *item.payload();
        let next = action.map_or(Next::Done, |action| action.next());
        if is_limited && !matches!(next, Next::BackOff) {
            self.session.queue().forget(item.key());
        }
        let outcome = match (action, next) {
            (None, _) => ReconcileOutcome::Gone,
            (_, Next::Done) => ReconcileOutcome::Done,
            (_, Next::After(delay)) => ReconcileOutcome::RequeueAfter(delay),
            (_, Next::At(time)) => ReconcileOutcome::RequeueAt(time),
            (_, Next::BackOff) => ReconcileOutcome::BackOff,
        };
        // The span is named but not entered: most often no subscriber listens.
        tracing::debug!(parent: &facts.span, ?outcome, "reconciled");
        // The triggers are consumed: they do not requeue anything.
        let triggers = std::mem::take(&mut item.payload_mut().triggers);
        self.note(item, triggers, outcome, failures, facts);
        if matches!(next, Next::Done) {
            self.metrics.succeeded();
            return QueueAction::Nothing;
        }
        let requeued = Trigger::own(self.session.core().requeued.clone(), Cause::Requeued);
        let is_limited = matches!(next, Next::BackOff);
        *item.payload_mut() = QueuePayload { is_limited, ..QueuePayload::new(requeued) };
        if let Some(priority) = action.and_then(|action| action.chosen_priority()) {
            item.set_priority(priority);
        }
        let jitter = || self.rng.up_to(action.map_or(Duration::ZERO, |action| action.longest_jitter()));
        match next {
            Next::After(delay) => {
                metrics.requeues_after.inc();
                QueueAction::After(delay.saturating_add(jitter()))
            }
            Next::At(time) => {
                metrics.requeues_after.inc();
                QueueAction::At(time.checked_add(jitter()).unwrap_or(time))
            }
            Next::Done | Next::BackOff => {
                metrics.requeues.inc();
                QueueAction::BackOff
            }
        }
    }

    fn failed(
        &self,
        item: &mut Item<'_, Request, QueuePayload>,
        failure: &Failure,
        facts: &AttemptInfo,
    ) -> QueueAction {
        let _entered = facts.span.enter();
        let core = &**self.session.core();
        let QueuePayload { failures, is_limited, .. } = *item.payload();
        let attempt = failures.saturating_add(1);
        core.metrics.failures.inc();
        core.metrics.errors.inc();
        let kept = || shorten(&failure.text);
        let text = &*cut(&failure.text, LOGGED);
        let is_end = failure.sort == FailureKind::Panic && !core.options.recover_panics;
        match failure.sort {
            FailureKind::Error => {}
            FailureKind::Terminal => drop(core.metrics.terminal_errors.inc()),
            FailureKind::Panic => drop(core.metrics.panics.inc()),
            FailureKind::Timeout => drop(core.metrics.timeouts.inc()),
        }
        let is_last = core.options.max_retries.as_ref().filter(|(retries, _)| failures >= *retries);
        let outcome = match (failure.sort, is_last) {
            (FailureKind::Terminal, _) => {
                tracing::error!(error = text, attempt, "reconcile failed; terminal error, no retry");
                ReconcileOutcome::Terminal(kept())
            }
            (_, Some((_, hook))) => {
                tracing::error!(error = text, attempt, "reconcile failed; retries exhausted");
                let exhausted =
                    RetriesExhausted { request: item.key(), attempts: attempt, error: &*failure.error };
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| hook(&exhausted))) {
                    tracing::error!(panic = panic_message(&*panic), "retries-exhausted hook panicked");
                }
                ReconcileOutcome::RetriesExhausted(kept())
            }
            (FailureKind::Error, None) => {
                tracing::warn!(error = text, attempt, "reconcile failed; will retry");
                ReconcileOutcome::Failed(kept())
            }
            (FailureKind::Panic, None) if is_end => {
                tracing::error!(error = text, attempt, "reconcile panicked; controller stops");
                ReconcileOutcome::Panicked(kept())
            }
            (FailureKind::Panic, None) => {
                tracing::error!(error = text, attempt, "reconcile panicked; will retry");
                ReconcileOutcome::Panicked(kept())
            }
            (FailureKind::Timeout, None) => {
                tracing::error!(error = text, attempt, "reconcile timed out; will retry");
                ReconcileOutcome::TimedOut
            }
        };
        if is_end {
            self.session.fail(ControllerError::Panicked {
                controller: core.name.to_string(),
                request: item.key().to_string(),
                message: failure.error.to_string(),
            });
        }
        let is_over =
            matches!(outcome, ReconcileOutcome::Terminal(_) | ReconcileOutcome::RetriesExhausted(_));
        self.note(item, item.payload().triggers.clone(), outcome, failures, facts);
        if is_over {
            if is_limited {
                self.session.queue().forget(item.key());
            }
            return QueueAction::Nothing;
        }
        let pending = item.payload_mut();
        pending.failures = attempt;
        pending.is_limited = true;
        QueueAction::BackOff
    }

    fn note(
        &self,
        item: &Item<'_, Request, QueuePayload>,
        triggers: Triggers,
        outcome: ReconcileOutcome,
        failures: u32,
        facts: &AttemptInfo,
    ) {
        if outcome != ReconcileOutcome::Done {
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

/// Records a reconcile's outcome in the span.
fn mark(span: &Span, outcome: &ReconcileOutcome) {
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

/// Polls the reconciler inside its span; a panic counts as an end.
fn poll<F>(running: Pin<&mut F>, span: &Span, poller: &mut Poller<'_>) -> Poll<ReconcileEnd>
where
    F: Future<Output = Result<Option<Action>, BoxError>>,
{
    let _entered = span.enter();
    match catch_unwind(AssertUnwindSafe(|| running.poll(poller))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(result)) => Poll::Ready(ReconcileEnd::Returned(result)),
        Err(panic) => Poll::Ready(ReconcileEnd::Panicked(panic_message(&*panic).to_owned())),
    }
}

/// A name as a span field: unquoted, which makes the span much cheaper. A name with characters outside Kubernetes'
/// names is quoted, so that it cannot forge a log line.
struct Text<'a>(&'a str);

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No early return: this lets the compiler vectorize the check.
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

//! The last reconciles, with their triggers and outcomes: for failed tests, for the debug page and for people on call.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use bowline_clock::{Clock, Instant};
use k8s_openapi::jiff::Timestamp;
use tokio::sync::broadcast;

use crate::context::ReconcileId;
use crate::{Request, Triggers};

/// Maximum number of records.
const KEPT: usize = 256;

/// Maximum number of records of all ended workers together: more are never returned.
const ENDED: usize = KEPT;

/// Maximum number of records of all running workers together; with many workers, [`LEAST`] of each.
const ALL: usize = 1024;

/// Minimum number of records that are kept per worker.
const LEAST: usize = 8;

/// Maximum bytes of an error that are kept.
const ERROR: usize = 1024;

/// Number of failed reconciles that are kept, whatever ends after them.
const FAILED: usize = 64;

/// Maximum number of records that wait for a subscriber.
const WAITING: usize = 1024;

/// The last 256 reconciles of all controllers of a cluster; fewer when workers had very different amounts of work. A
/// clone is the same history.
///
/// Memory is bounded: all running workers together keep 1024 records, or 8 each if there are more than 128 workers, and
/// all ended workers together keep 256. An error keeps one kilobyte. [Failures](Self::failures) are counted, and the last 64 are kept separately, so that successful
/// reconciles never hide them.
///
/// Recording costs a worker one uncontended lock: only readers of the history take it too.
#[derive(Clone)]
pub struct ReconcileHistory {
    shared: Arc<Shared>,
    /// Run of the operator that the records of this handle belong to.
    run: Arc<OperatorRun>,
}

/// One run of an operator.
struct OperatorRun {
    number: u32,
    is_recording: AtomicBool,
}

impl OperatorRun {
    fn new(number: u32) -> Arc<Self> {
        Arc::new(Self { number, is_recording: AtomicBool::new(true) })
    }
}

impl Default for ReconcileHistory {
    fn default() -> Self {
        Self { shared: Arc::default(), run: OperatorRun::new(1) }
    }
}

impl Default for Shared {
    fn default() -> Self {
        let terms = Terms {
            ration: AtomicUsize::new(KEPT),
            has_subscribers: AtomicBool::new(false),
            failures: Mutex::default(),
        };
        Self { workers: Mutex::default(), terms: Arc::new(terms), subscribers: OnceLock::new() }
    }
}

struct Shared {
    workers: Mutex<Workers>,
    terms: Arc<Terms>,
    /// Created at the first subscription.
    subscribers: OnceLock<broadcast::Sender<ReconcileRecord>>,
}

#[derive(Default)]
struct Workers {
    books: Vec<WorkerHistory>,
    /// The last records of ended workers, in the order of their end.
    ended: VecDeque<(Instant, ReconcileRecord)>,
}

/// The state that workers need. Separate, so that they need not check whether the history still exists.
struct Terms {
    /// Number of records per worker.
    ration: AtomicUsize,
    /// Whether there ever was a subscriber.
    has_subscribers: AtomicBool,
    failures: Mutex<Failures>,
}

#[derive(Default)]
struct Failures {
    total: u64,
    last: VecDeque<ReconcileRecord>,
}

/// The failed reconciles of a cluster; from [`ReconcileHistory::failures`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FailedRuns {
    /// Number of all failures since the cluster was created. Each attempt counts, whether or not a later one succeeded.
    pub total: u64,
    /// The last failures, at most 64, in the order of their end.
    pub last: Vec<ReconcileRecord>,
}

/// Reconciles from now on, in the order of their end; from [`ReconcileHistory::subscribe`].
#[derive(Debug)]
pub struct ReconcileStream {
    receiver: broadcast::Receiver<ReconcileRecord>,
    missed: u64,
}

/// One finished reconcile.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReconcileRecord {
    /// Name of the controller.
    pub controller: Arc<str>,
    /// The reconciled object.
    pub request: Request,
    /// Reasons of the reconcile.
    pub triggers: Triggers,
    /// Attempt number, from 1.
    pub attempt: u32,
    /// Id of the reconcile, as in the logs.
    pub id: ReconcileId,
    /// Run of the operator, from 1: see [`ReconcileHistory::for_run`].
    pub run: u32,
    /// Start time.
    pub started: SystemTime,
    /// Duration.
    pub took: Duration,
    /// Result.
    pub outcome: ReconcileOutcome,
}

/// Result of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReconcileOutcome {
    /// Done: there is no further run.
    Done,
    /// The object does not exist, so an [`ObjectReconciler`](crate::ObjectReconciler) was not called.
    Gone,
    /// The reconciler asked for another run after a delay.
    RequeueAfter(Duration),
    /// The reconciler asked for another run at a time of the wall clock.
    RequeueAt(SystemTime),
    /// The reconciler asked for another run with backoff.
    BackOff,
    /// Failed; will be retried.
    Failed(String),
    /// Failed with a terminal error; no retry.
    Terminal(String),
    /// Failed with retries exhausted. The text is the last error, panic or timeout.
    RetriesExhausted(String),
    /// Panicked; will be retried, unless the controller [ends on panics](crate::ControllerBuilder::recover_panics).
    Panicked(String),
    /// Timed out; will be retried.
    TimedOut,
}

impl ReconcileHistory {
    /// The same history for another run of an operator, for [`ClusterBuilder::history`](crate::ClusterBuilder::history)
    /// or [`ManagerBuilder::history`](crate::ManagerBuilder::history): the records of its controllers have this
    /// [number](ReconcileRecord::run). A test that restarts an operator reads all runs in one place. Default: run 1.
    #[must_use]
    pub fn for_run(&self, run: u32) -> Self {
        Self { shared: self.shared.clone(), run: OperatorRun::new(run) }
    }

    /// Ignores all reconciles of this run that end from now on: they are neither kept, nor counted as
    /// [failures](Self::failures), nor delivered to [subscribers](Self::subscribe). The run is that of this handle and its
    /// clones, not of other calls of [`for_run`](Self::for_run). A test that kills an operator calls this first, because
    /// reconciles that the kill makes fail are no failures of the operator.
    pub fn stop_recording(&self) {
        self.run.is_recording.store(false, Ordering::Release);
    }

    /// The last reconciles, in the order of their end.
    #[must_use]
    pub fn runs(&self) -> Vec<ReconcileRecord> {
        let (books, mut runs) = {
            let workers = lock(&self.shared.workers);
            (workers.books.clone(), workers.ended.iter().cloned().collect::<Vec<_>>())
        };
        for book in books {
            let now = book.inner.now();
            let page = lock(&book.inner.page);
            runs.extend(page.records.iter().map(|record| (record.finished, book.inner.run(record, now))));
        }
        runs.sort_by_key(|(finished, _)| *finished);
        let old = runs.len().saturating_sub(KEPT);
        runs.into_iter().skip(old).map(|(_, run)| run).collect()
    }

    /// The reconciles that [failed](ReconcileOutcome::is_failure), of all controllers that this cluster ever had: their
    /// number, and the last of them.
    #[must_use]
    pub fn failures(&self) -> FailedRuns {
        let failures = lock(&self.shared.terms.failures);
        FailedRuns { total: failures.total, last: failures.last.iter().cloned().collect() }
    }

    /// Delivers each reconcile that ends from now on. Up to 1024 wait for a slow subscriber; it misses further ones.
    #[must_use]
    pub fn subscribe(&self) -> ReconcileStream {
        let subscribers = self.shared.subscribers.get_or_init(|| broadcast::Sender::new(WAITING));
        self.shared.terms.has_subscribers.store(true, Ordering::Release);
        ReconcileStream { receiver: subscribers.subscribe(), missed: 0 }
    }

    /// Records of one worker of a controller.
    pub(crate) fn book(&self, controller: Arc<str>, clock: Clock) -> WorkerHistory {
        let book = WorkerHistory {
            inner: Arc::new(Pages {
                controller,
                run: self.run.clone(),
                clock,
                page: Mutex::default(),
                terms: self.shared.terms.clone(),
                shared: Arc::downgrade(&self.shared),
            }),
        };
        let mut workers = lock(&self.shared.workers);
        workers.collect_ended();
        workers.books.push(book.clone());
        let ration = (ALL / workers.books.len()).clamp(LEAST, KEPT);
        self.shared.terms.ration.store(ration, Ordering::Relaxed);
        drop(workers);
        book
    }
}

impl Workers {
    /// Moves the records of ended workers to one list, and drops the oldest of that list.
    fn collect_ended(&mut self) {
        let ended = self.books.extract_if(.., |book| book.is_abandoned());
        for book in ended {
            let now = book.inner.now();
            let records = std::mem::take(&mut lock(&book.inner.page).records);
            self.ended.extend(records.iter().map(|record| (record.finished, book.inner.run(record, now))));
        }
        self.ended.make_contiguous().sort_by_key(|(finished, _)| *finished);
        let old = self.ended.len().saturating_sub(ENDED);
        self.ended.drain(..old);
    }
}

impl ReconcileStream {
    /// The next reconcile that ended; `None` when the history no longer exists.
    pub async fn next(&mut self) -> Option<ReconcileRecord> {
        loop {
            match self.receiver.recv().await {
                Ok(run) => return Some(run),
                Err(broadcast::error::RecvError::Lagged(missed)) => self.missed += missed,
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    /// Number of missed reconciles, because the subscriber was slow.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

/// The records of one worker.
#[derive(Clone)]
pub(crate) struct WorkerHistory {
    inner: Arc<Pages>,
}

struct Pages {
    controller: Arc<str>,
    run: Arc<OperatorRun>,
    clock: Clock,
    page: Mutex<Page>,
    terms: Arc<Terms>,
    shared: std::sync::Weak<Shared>,
}

#[derive(Default)]
struct Page {
    /// The current reconcile, if it did not end at its first poll.
    open: Option<(Request, Instant)>,
    records: VecDeque<Record>,
}

/// A finished reconcile as the worker records it, without derived fields.
pub(crate) struct Record {
    pub(crate) request: Request,
    pub(crate) triggers: Triggers,
    pub(crate) attempt: u32,
    pub(crate) id: ReconcileId,
    pub(crate) started: Instant,
    pub(crate) finished: Instant,
    pub(crate) outcome: ReconcileOutcome,
}

impl WorkerHistory {
    /// Starts a reconcile that did not end at its first poll.
    pub(crate) fn open(&self, request: &Request, started: Instant) {
        lock(&self.inner.page).open = Some((request.clone(), started));
    }

    /// Ends a reconcile.
    pub(crate) fn close(&self, record: Record) {
        if !self.inner.run.is_recording.load(Ordering::Acquire) {
            self.abandon();
            return;
        }
        if self.inner.terms.has_subscribers.load(Ordering::Acquire) {
            self.inner.publish(&record);
        }
        if record.outcome.is_failure() {
            self.inner.keep_failure(&record);
        }
        let ration = self.inner.terms.ration.load(Ordering::Relaxed);
        let mut page = lock(&self.inner.page);
        page.open = None;
        let oldest = if page.records.len() >= ration { page.records.pop_front() } else { None };
        page.records.push_back(record);
        if page.records.len() > ration {
            // The number of workers has grown.
            page.trim(ration);
        }
        drop(page);
        drop(oldest);
    }

    /// The current reconcile, if it did not end at its first poll, and its start time.
    pub(crate) fn running(&self) -> Option<(Request, Instant)> {
        lock(&self.inner.page).open.clone()
    }

    /// Clears the current reconcile: the worker was aborted.
    pub(crate) fn abandon(&self) {
        lock(&self.inner.page).open = None;
    }

    /// Whether the worker has ended.
    fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.inner) == 1
    }
}

impl Page {
    fn trim(&mut self, to: usize) {
        let old = self.records.len().saturating_sub(to);
        self.records.drain(..old);
    }
}

/// Truncates a text to a number of bytes and appends the number of removed bytes. An error can quote a whole object.
pub(crate) fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return text.into();
    }
    let end = text.floor_char_boundary(limit);
    format!("{}… ({} more bytes)", &text[..end], text.len() - end).into()
}

/// The text of an error, truncated.
pub(crate) fn shorten(text: &str) -> String {
    if text.len() <= ERROR {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(ERROR - '…'.len_utf8());
    format!("{}…", &text[..end])
}

impl Pages {
    fn now(&self) -> (SystemTime, Instant) {
        (self.clock.system_time(), self.clock.now())
    }

    /// Counts a failure, and keeps it in place of the oldest one.
    #[cold]
    fn keep_failure(&self, record: &Record) {
        let run = self.run(record, self.now());
        let mut failures = lock(&self.terms.failures);
        failures.total += 1;
        let oldest = if failures.last.len() >= FAILED { failures.last.pop_front() } else { None };
        failures.last.push_back(run);
        drop(failures);
        drop(oldest);
    }

    /// Notifies subscribers.
    #[cold]
    fn publish(&self, record: &Record) {
        if let Some(shared) = self.shared.upgrade()
            && let Some(subscribers) = shared.subscribers.get()
            && subscribers.receiver_count() > 0
        {
            let _ = subscribers.send(self.run(record, self.now()));
        }
    }

    fn run(&self, record: &Record, (wall, now): (SystemTime, Instant)) -> ReconcileRecord {
        ReconcileRecord {
            controller: self.controller.clone(),
            request: record.request.clone(),
            triggers: record.triggers.clone(),
            attempt: record.attempt,
            id: record.id,
            run: self.run.number,
            started: wall - now.duration_since(record.started),
            took: record.finished.duration_since(record.started),
            outcome: record.outcome.clone(),
        }
    }
}

impl ReconcileOutcome {
    /// One word for logs, traces and programs: `done`, `gone`, `requeue_after`, `requeue_at`, `requeue`, `failed`,
    /// `terminal`, `retries_exhausted`, `panicked`, `timed_out`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Gone => "gone",
            Self::RequeueAfter(_) => "requeue_after",
            Self::RequeueAt(_) => "requeue_at",
            Self::BackOff => "requeue",
            Self::Failed(_) => "failed",
            Self::Terminal(_) => "terminal",
            Self::RetriesExhausted(_) => "retries_exhausted",
            Self::Panicked(_) => "panicked",
            Self::TimedOut => "timed_out",
        }
    }

    /// Whether it failed, with or without a retry.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Done | Self::Gone | Self::RequeueAfter(_) | Self::RequeueAt(_) | Self::BackOff => false,
            Self::Failed(_)
            | Self::Terminal(_)
            | Self::RetriesExhausted(_)
            | Self::Panicked(_)
            | Self::TimedOut => true,
        }
    }
}

/// One line: `website default/blog (Website created), attempt 2, 3.1ms: done`.
impl fmt::Display for ReconcileRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { controller, request, triggers, attempt, took, outcome, .. } = self;
        write!(f, "{controller} {request} ({triggers})")?;
        if *attempt > 1 {
            write!(f, ", attempt {attempt}")?;
        }
        // Long fields come last.
        write!(f, ", {took:.1?}: {outcome}")
    }
}

impl fmt::Display for ReconcileOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Gone => f.write_str("gone"),
            Self::RequeueAfter(delay) => write!(f, "again after {delay:?}"),
            Self::RequeueAt(time) => match Timestamp::try_from(*time) {
                Ok(time) => write!(f, "again at {time:.3}"),
                Err(_) => f.write_str("again in a year that has more than four digits"),
            },
            Self::BackOff => f.write_str("again, backing off"),
            Self::Failed(error) => write!(f, "failed: {error}"),
            Self::Terminal(error) => {
                write!(f, "failed for good: {}", error.strip_prefix("terminal error: ").unwrap_or(error))
            }
            Self::RetriesExhausted(error) => write!(f, "retries exhausted: {error}"),
            Self::Panicked(error) => write!(f, "panicked: {error}"),
            Self::TimedOut => f.write_str("took too long"),
        }
    }
}

impl fmt::Debug for ReconcileHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReconcileHistory").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use bowline_clock::Simulation;

    use super::*;

    fn close(book: &WorkerHistory, times: usize) {
        close_as(book, times, &ReconcileOutcome::Done);
    }

    fn close_as(book: &WorkerHistory, times: usize, outcome: &ReconcileOutcome) {
        for _ in 0..times {
            let now = book.inner.clock.now();
            book.close(Record {
                request: Request::new("default", "a"),
                triggers: Triggers::default(),
                attempt: 1,
                id: ReconcileId::from_random(1 << 64 | 2),
                started: now,
                finished: now,
                outcome: outcome.clone(),
            });
        }
    }

    #[test]
    fn a_failure_stays_counted_and_kept_when_others_took_its_place_and_its_worker_is_gone() {
        Simulation::new(1).run(|clock| async move {
            let history = ReconcileHistory::default();
            assert_eq!(history.failures().total, 0);
            let book = history.book("c".into(), clock.clone());
            close_as(&book, 1, &ReconcileOutcome::TimedOut);
            close(&book, 10_000);
            assert!(history.runs().iter().all(|run| run.outcome == ReconcileOutcome::Done));
            drop(book);
            close(&history.book("other".into(), clock.clone()), 10_000);
            let FailedRuns { total, last } = history.failures();
            assert_eq!((total, last.len()), (1, 1));
            assert_eq!((&*last[0].controller, &last[0].outcome), ("c", &ReconcileOutcome::TimedOut));

            let book = history.book("c".into(), clock);
            close_as(&book, 1000, &ReconcileOutcome::Failed("no".to_owned()));
            let FailedRuns { total, last } = history.failures();
            assert_eq!((total, last.len()), (1001, FAILED));
            assert!(last.iter().all(|run| run.outcome == ReconcileOutcome::Failed("no".to_owned())));
        });
    }

    #[test]
    fn records_of_all_runs_are_in_one_history_and_name_their_run() {
        Simulation::new(1).run(|clock| async move {
            let history = ReconcileHistory::default();
            let mut stream = history.subscribe();
            close(&history.book("c".into(), clock.clone()), 1);
            let second = history.for_run(2).book("c".into(), clock);
            close_as(&second, 1, &ReconcileOutcome::TimedOut);
            assert_eq!(history.runs().iter().map(|record| record.run).collect::<Vec<_>>(), [1, 2]);
            assert_eq!(history.failures().last[0].run, 2);
            assert_eq!(stream.next().await.map(|record| record.run), Some(1));
            assert_eq!(stream.next().await.map(|record| record.run), Some(2));
        });
    }

    #[test]
    fn records_of_fifty_restarts_of_two_controllers_are_kept() {
        Simulation::new(1).run(|clock| async move {
            let history = ReconcileHistory::default();
            for run in 1..=50 {
                let run = history.for_run(run);
                for name in ["one", "two"] {
                    close(&run.book(name.into(), clock.clone()), 2);
                    clock.sleep(Duration::from_secs(1)).await;
                }
            }
            let kept: Vec<_> =
                history.runs().iter().map(|record| (record.run, record.controller.to_string())).collect();
            let made =
                (1..=50).flat_map(|run| ["one", "one", "two", "two"].map(|name| (run, name.to_owned())));
            assert_eq!(kept, made.collect::<Vec<_>>());
            // The time of a record does not depend on when its worker ended.
            let first = history.runs()[0].started;
            assert_eq!(clock.system_time().duration_since(first).unwrap(), Duration::from_secs(100));
        });
    }

    #[test]
    fn a_run_that_is_not_recorded_any_more_leaves_the_records_of_other_runs_alone() {
        Simulation::new(1).run(|clock| async move {
            let history = ReconcileHistory::default();
            let second = history.for_run(2);
            let books = [history.book("c".into(), clock.clone()), second.clone().book("c".into(), clock)];
            for book in &books {
                close(book, 1);
            }
            second.stop_recording();
            for book in &books {
                close_as(book, 1, &ReconcileOutcome::TimedOut);
            }
            assert_eq!(history.runs().iter().map(|record| record.run).collect::<Vec<_>>(), [1, 1, 2]);
            assert_eq!(history.failures().total, 1);
        });
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_how_much_is_missing() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("äöü", 3), "ä… (4 more bytes)");
        let quoted = "x".repeat(1 << 20);
        assert!(cut(&quoted, 4096).len() < 4096 + 32);
        assert!(cut(&quoted, 4096).ends_with("x… (1044480 more bytes)"));
    }

    #[test]
    fn a_history_of_many_workers_keeps_no_more_than_one_of_few() {
        Simulation::new(1).run(|clock| async move {
            let history = ReconcileHistory::default();
            let book = || history.book("c".into(), clock.clone());
            let kept = || -> usize {
                let workers = lock(&history.shared.workers);
                let running = workers.books.iter().map(|book| lock(&book.inner.page).records.len());
                running.sum::<usize>() + workers.ended.len()
            };
            let first = book();
            close(&first, 1000);
            assert_eq!((kept(), history.runs().len()), (KEPT, KEPT));
            let books: Vec<_> = (1..100).map(|_| book()).collect();
            books.iter().chain([&first]).for_each(|book| close(book, 1000));
            assert_eq!(kept(), 100 * (ALL / 100));
            // Workers that ended leave no more than others.
            drop((first, books));
            let _last = book();
            assert_eq!((kept(), history.runs().len()), (ENDED, KEPT));
        });
    }
}

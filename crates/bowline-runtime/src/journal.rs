//! The last reconciles: why they ran and how they ended. For tests that fail, for a page to look at, for people on call.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use bowline_clock::{Clock, Instant};
use tokio::sync::broadcast;

use crate::context::ReconcileId;
use crate::{Request, Triggers};

/// How many reconciles are kept.
const KEPT: usize = 256;

/// Of how many workers that are gone the reconciles are kept.
const ABANDONED: usize = 16;

/// How many reconciles are kept of all workers together, unless there are very many of them: [`LEAST`] of each are.
const ALL: usize = 1024;

/// How many reconciles of a worker are kept at least.
const LEAST: usize = 8;

/// How many bytes of an error are kept.
const ERROR: usize = 1024;

/// How many wait for who subscribed.
const WAITING: usize = 1024;

/// The last reconciles of all controllers of a cluster: 256 of them, fewer when many workers had very different amounts of
/// work. A clone is the same journal.
///
/// It does not grow: all workers together keep 1024, or 8 each where there are more than 128 of them, and of an error no
/// more than a kilobyte.
///
/// To note one costs a worker a lock that is its own: nobody else takes it but who reads.
#[derive(Clone, Default)]
pub struct Journal {
    shared: Arc<Shared>,
}

impl Default for Shared {
    fn default() -> Self {
        let terms = Terms { ration: AtomicUsize::new(KEPT), is_told: AtomicBool::new(false) };
        Self { books: Mutex::default(), terms: Arc::new(terms), told: OnceLock::new() }
    }
}

struct Shared {
    books: Mutex<Vec<Book>>,
    terms: Arc<Terms>,
    /// Made when somebody first wants to be told.
    told: OnceLock<broadcast::Sender<Run>>,
}

/// What workers have to know of the journal. Apart, so that they need not ask whether it is still there.
struct Terms {
    /// How many reconciles each book keeps.
    ration: AtomicUsize,
    /// Whether somebody ever wanted to be told.
    is_told: AtomicBool,
}

/// Reconciles that end from now on, one by one; from [`Journal::subscribe`].
#[derive(Debug)]
pub struct Runs {
    receiver: broadcast::Receiver<Run>,
    missed: u64,
}

/// One reconcile that is over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Run {
    /// The controller's name.
    pub controller: Arc<str>,
    /// What was reconciled.
    pub request: Request,
    /// Why.
    pub triggers: Triggers,
    /// The how many-th try it was, from 1.
    pub attempt: u32,
    /// Its number, which is in the logs.
    pub id: ReconcileId,
    /// When it began.
    pub started: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a reconcile ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// There is nothing more to do.
    Done,
    /// The object is gone, so that a reconciler that wants the object was not called.
    Gone,
    /// It wants to be run again after a time.
    RequeueAfter(Duration),
    /// It wants to be run again, backing off.
    BackOff,
    /// It failed, and is tried again.
    Failed(String),
    /// It failed, and is not tried again: the error is terminal.
    Terminal(String),
    /// It failed once too often, and is not tried again. The text says what it failed with the last time, also if that was a
    /// panic or took too long.
    GaveUp(String),
    /// It panicked, and is tried again, unless the controller was told
    /// [not to go on](crate::ControllerBuilder::recover_panics) then.
    Panicked(String),
    /// It took too long, and is tried again.
    TimedOut,
}

impl Journal {
    /// The last reconciles, in the order in which they ended.
    #[must_use]
    pub fn runs(&self) -> Vec<Run> {
        let books = lock(&self.shared.books).clone();
        let mut runs: Vec<(Instant, Run)> = Vec::new();
        for book in books {
            let now = book.inner.now();
            let page = lock(&book.inner.page);
            runs.extend(page.records.iter().map(|record| (record.finished, book.inner.run(record, now))));
        }
        runs.sort_by_key(|(finished, _)| *finished);
        let old = runs.len().saturating_sub(KEPT);
        runs.into_iter().skip(old).map(|(_, run)| run).collect()
    }

    /// Tells of each reconcile that ends from now on. What somebody does not ask for in time is missed: up to 1024 wait.
    #[must_use]
    pub fn subscribe(&self) -> Runs {
        let told = self.shared.told.get_or_init(|| broadcast::Sender::new(WAITING));
        self.shared.terms.is_told.store(true, Ordering::Release);
        Runs { receiver: told.subscribe(), missed: 0 }
    }

    /// A book for one worker of a controller.
    pub(crate) fn book(&self, controller: Arc<str>, clock: Clock) -> Book {
        let book = Book {
            inner: Arc::new(Pages {
                controller,
                clock,
                page: Mutex::default(),
                terms: self.shared.terms.clone(),
                journal: Arc::downgrade(&self.shared),
            }),
        };
        let mut books = lock(&self.shared.books);
        // Controllers may come and go; what the older ones did is forgotten.
        let gone = books.iter().filter(|book| book.is_abandoned()).count();
        let mut left = gone.saturating_sub(ABANDONED);
        books.retain(|book| {
            let goes = left > 0 && book.is_abandoned();
            left -= usize::from(goes);
            !goes
        });
        books.push(book.clone());
        let ration = (ALL / books.len()).clamp(LEAST, KEPT);
        self.shared.terms.ration.store(ration, Ordering::Relaxed);
        for gone in books.iter().filter(|book| book.is_abandoned()) {
            lock(&gone.inner.page).trim(ration);
        }
        drop(books);
        book
    }
}

impl Runs {
    /// The next reconcile that ended; none when there is no journal any more.
    pub async fn next(&mut self) -> Option<Run> {
        loop {
            match self.receiver.recv().await {
                Ok(run) => return Some(run),
                Err(broadcast::error::RecvError::Lagged(missed)) => self.missed += missed,
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    /// How many were missed, because they were not asked for in time.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

/// Where one worker notes what it does.
#[derive(Clone)]
pub(crate) struct Book {
    inner: Arc<Pages>,
}

struct Pages {
    controller: Arc<str>,
    clock: Clock,
    page: Mutex<Page>,
    terms: Arc<Terms>,
    journal: std::sync::Weak<Shared>,
}

#[derive(Default)]
struct Page {
    /// What runs and was not done at once.
    open: Option<(Request, Instant)>,
    records: VecDeque<Record>,
}

/// One reconcile that is over, as a worker notes it: without what can be found out later.
pub(crate) struct Record {
    pub(crate) request: Request,
    pub(crate) triggers: Triggers,
    pub(crate) attempt: u32,
    pub(crate) id: ReconcileId,
    pub(crate) started: Instant,
    pub(crate) finished: Instant,
    pub(crate) outcome: Outcome,
}

impl Book {
    /// A reconcile runs that was not done at once.
    pub(crate) fn open(&self, request: &Request, started: Instant) {
        lock(&self.inner.page).open = Some((request.clone(), started));
    }

    /// A reconcile is over.
    pub(crate) fn close(&self, record: Record) {
        if self.inner.terms.is_told.load(Ordering::Acquire) {
            self.inner.tell(&record);
        }
        let ration = self.inner.terms.ration.load(Ordering::Relaxed);
        let mut page = lock(&self.inner.page);
        page.open = None;
        let oldest = if page.records.len() >= ration { page.records.pop_front() } else { None };
        page.records.push_back(record);
        if page.records.len() > ration {
            // There are more workers than before.
            page.trim(ration);
        }
        drop(page);
        drop(oldest);
    }

    /// What runs now and was not done at once, and since when.
    pub(crate) fn running(&self) -> Option<(Request, Instant)> {
        lock(&self.inner.page).open.clone()
    }

    /// Nothing runs any more: the worker was aborted.
    pub(crate) fn abandon(&self) {
        lock(&self.inner.page).open = None;
    }

    /// Whether nobody writes into it any more.
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

/// As much of an error's text as is kept.
pub(crate) fn shorten(text: &str) -> String {
    if text.len() <= ERROR {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(ERROR - '…'.len_utf8());
    format!("{}…", &text[..end])
}

impl Pages {
    fn now(&self) -> (SystemTime, Instant) {
        (self.clock.wall(), self.clock.now())
    }

    /// Tells who subscribed.
    #[cold]
    fn tell(&self, record: &Record) {
        if let Some(journal) = self.journal.upgrade()
            && let Some(told) = journal.told.get()
            && told.receiver_count() > 0
        {
            let _ = told.send(self.run(record, self.now()));
        }
    }

    fn run(&self, record: &Record, (wall, now): (SystemTime, Instant)) -> Run {
        Run {
            controller: self.controller.clone(),
            request: record.request.clone(),
            triggers: record.triggers.clone(),
            attempt: record.attempt,
            id: record.id,
            started: wall - now.since(record.started),
            took: record.finished.since(record.started),
            outcome: record.outcome.clone(),
        }
    }
}

impl Outcome {
    /// One word, for logs, traces and programs: `done`, `gone`, `requeue_after`, `requeue`, `failed`, `terminal`, `gave_up`,
    /// `panicked`, `timed_out`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Gone => "gone",
            Self::RequeueAfter(_) => "requeue_after",
            Self::BackOff => "requeue",
            Self::Failed(_) => "failed",
            Self::Terminal(_) => "terminal",
            Self::GaveUp(_) => "gave_up",
            Self::Panicked(_) => "panicked",
            Self::TimedOut => "timed_out",
        }
    }

    /// Whether it failed, whatever comes next.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Done | Self::Gone | Self::RequeueAfter(_) | Self::BackOff => false,
            Self::Failed(_) | Self::Terminal(_) | Self::GaveUp(_) | Self::Panicked(_) | Self::TimedOut => {
                true
            }
        }
    }
}

/// One line: `website default/blog (Website created), attempt 2, 3.1ms: done`.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { controller, request, triggers, attempt, took, outcome, .. } = self;
        write!(f, "{controller} {request} ({triggers})")?;
        if *attempt > 1 {
            write!(f, ", attempt {attempt}")?;
        }
        // What can be long comes last.
        write!(f, ", {took:.1?}: {outcome}")
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Gone => f.write_str("gone"),
            Self::RequeueAfter(delay) => write!(f, "again after {delay:?}"),
            Self::BackOff => f.write_str("again, backing off"),
            Self::Failed(error) => write!(f, "failed: {error}"),
            Self::Terminal(error) => {
                write!(f, "failed for good: {}", error.strip_prefix("terminal error: ").unwrap_or(error))
            }
            Self::GaveUp(error) => write!(f, "given up: {error}"),
            Self::Panicked(error) => write!(f, "panicked: {error}"),
            Self::TimedOut => f.write_str("took too long"),
        }
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use bowline_clock::Simulation;

    use super::*;

    fn close(book: &Book, times: usize) {
        for _ in 0..times {
            let now = book.inner.clock.now();
            book.close(Record {
                request: Request::new("default", "a"),
                triggers: Triggers::default(),
                attempt: 1,
                id: ReconcileId::from_random(1 << 64 | 2),
                started: now,
                finished: now,
                outcome: Outcome::Done,
            });
        }
    }

    #[test]
    fn a_journal_of_many_workers_keeps_no_more_than_one_of_few() {
        Simulation::new(1).run(|clock| async move {
            let journal = Journal::default();
            let book = || journal.book("c".into(), clock.clone());
            let kept = || -> usize {
                lock(&journal.shared.books).iter().map(|book| lock(&book.inner.page).records.len()).sum()
            };
            let first = book();
            close(&first, 1000);
            assert_eq!((kept(), journal.runs().len()), (KEPT, KEPT));
            let books: Vec<_> = (1..100).map(|_| book()).collect();
            books.iter().chain([&first]).for_each(|book| close(book, 1000));
            assert_eq!(kept(), 100 * (ALL / 100));
            // Workers that are gone leave no more than others.
            drop((first, books));
            let _last = book();
            assert!(kept() <= ABANDONED * (ALL / 17), "{}", kept());
        });
    }
}

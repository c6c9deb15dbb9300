//! The task of a running controller: keeps informers until it may reconcile, begins its watches, waits for their sync,
//! runs workers, and cleans up.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bowline_clock::{Scope, panic_message};
use futures::FutureExt as _;
use futures::future::{join, join_all};
use tokio::sync::watch;
use tracing::Instrument as _;

use super::error::ControllerError;
use super::handle::{Inner, Phase, StopReport};
use super::run_control::RunControl;
use super::session::Session;
use crate::metrics::ControllerMetrics;
use crate::reconcile_history::WorkerHistory;

/// Time until missing sources are first logged.
const PATIENCE: Duration = Duration::from_secs(10);

/// Period of further such logs.
const REMINDER: Duration = Duration::from_mins(1);

/// Grace period of sources and workers after their time is over.
const GRACE: Duration = Duration::from_secs(1);

/// Runs a controller until it is stopped or fails.
pub(super) async fn supervise(
    inner: Arc<Inner>,
    session: Arc<Session>,
    control: RunControl,
    sync_timeout: Duration,
    phase: watch::Sender<Phase>,
) {
    let up = Up::new(&session.core().metrics);
    let life = live(&inner, &session, &control, sync_timeout, &phase);
    let (ran, stopped) = tokio::select! {
        biased;
        never = control.pass_on(&session) => match never {},
        life = life => life,
    };
    // Before it can be started again.
    drop(up);
    let result = match (ran, session.failure()) {
        (Err(error), _) => Err(error),
        (Ok(()), Some(failure)) => Err(failure.clone()),
        (Ok(()), None) => Ok(stopped.clone()),
    };
    match &result {
        // Waiting requests reappear at the next start, so this is no warning.
        Ok(_) if stopped.aborted().is_empty() && stopped.left_behind().is_empty() => {
            tracing::info!(controller = session.name(), waiting = stopped.waiting(), "stopped");
        }
        Ok(_) => tracing::warn!(
            controller = session.name(),
            aborted = ?stopped.aborted(),
            left_behind = ?stopped.left_behind(),
            waiting = stopped.waiting(),
            "stopped, and aborted what did not end in time"
        ),
        Err(error) => tracing::error!(
            controller = session.name(),
            %error,
            aborted = ?stopped.aborted(),
            left_behind = ?stopped.left_behind(),
            "controller ended"
        ),
    }
    let _ = phase.send(Phase::Ended(result));
}

/// From the first watch until the cleanup is done.
async fn live(
    inner: &Inner,
    session: &Arc<Session>,
    control: &RunControl,
    sync_timeout: Duration,
    phase: &watch::Sender<Phase>,
) -> (Result<(), ControllerError>, StopReport) {
    let workers = session.spawner().scope("workers");
    let work = run(inner, session, &workers, control, sync_timeout, phase);
    let ran = AssertUnwindSafe(work).catch_unwind().await;
    let ran = ran.unwrap_or_else(|panic| {
        let message = panic_message(&*panic).to_owned();
        Err(ControllerError::Broken { controller: session.name().to_owned(), message })
    });
    (ran, clear_up(inner, session, &workers).await)
}

async fn run(
    inner: &Inner,
    session: &Arc<Session>,
    workers: &Scope,
    control: &RunControl,
    sync_timeout: Duration,
    phase: &watch::Sender<Phase>,
) -> Result<(), ControllerError> {
    let mut too_long = std::pin::pin!(wait(inner, session, sync_timeout));
    if !control.may_reconcile.is_cancelled() {
        let warm = inner.warm_up(session)?;
        let cached = async {
            join_all(warm.iter().map(|warm| warm.synced())).await;
        };
        tokio::select! {
            biased;
            () = session.cancellation().cancelled() => return Ok(()),
            // A controller that may reconcile does not wait here: missing sources are awaited below.
            () = control.may_reconcile.cancelled() => {}
            () = cached => {
                tracing::info!(
                    controller = session.name(),
                    "caches synced; waiting for leadership"
                );
                let _ = phase.send(Phase::Warm);
                tokio::select! {
                    biased;
                    () = session.cancellation().cancelled() => return Ok(()),
                    () = control.may_reconcile.cancelled() => {}
                }
                too_long.set(wait(inner, session, sync_timeout));
            }
            error = &mut too_long => return Err(error),
        }
    }
    // The initial sync needs the retries, too: an async handler waits while too many of its changes are retried.
    start_retries(session, workers);
    let begun = inner.begin(session)?;
    let seen = async {
        join_all(begun.iter().map(|begun| begun.synced())).await;
    };
    tokio::select! {
        biased;
        () = session.cancellation().cancelled() => return Ok(()),
        () = seen => {}
        error = too_long => return Err(error),
    }
    start_workers(inner, session, workers)?;
    tracing::info!(
        controller = session.name(),
        workers = session.core().options.concurrency,
        "caches synced; workers started"
    );
    session.core().metrics.ready.set(1);
    let _ = phase.send(Phase::Working);
    tokio::select! {
        biased;
        () = session.cancellation().cancelled() => {}
        () = session.watch_wall_clock() => {}
    }
    Ok(())
}

/// Waits for the sync timeout, and logs from time to time which sources have not synced; in the end they are the error.
async fn wait(inner: &Inner, session: &Session, limit: Duration) -> ControllerError {
    let (mut left, mut patience) = (limit, PATIENCE);
    while patience < left {
        session.clock().sleep(patience).await;
        for missing in inner.waiting_for() {
            tracing::warn!(controller = session.name(), %missing, "still waiting for cache sync");
        }
        if left != Duration::MAX {
            left -= patience;
        }
        patience = REMINDER;
    }
    session.clock().sleep(left).await;
    let controller = session.name().to_owned();
    ControllerError::NotSynced { controller, limit, missing: inner.waiting_for() }
}

fn start_workers(inner: &Inner, session: &Arc<Session>, workers: &Scope) -> Result<(), ControllerError> {
    let span = session.cluster().span();
    for number in 0..session.core().options.concurrency.get() {
        let (task, session) = (inner.task.0.clone(), session.clone());
        let worker = move || {
            task.worker(session.clone(), number).map_err(|error| ControllerError::Watch {
                controller: session.name().to_owned(),
                watch: session.core().kind.clone(),
                error: Box::new(error),
            })
        };
        let mut next = worker()?;
        let worker = async move {
            // Panics of reconciles are caught in the worker. This one comes from a future that panicked in its drop.
            while let Err(panic) = AssertUnwindSafe(next).catch_unwind().await {
                let panic = panic_message(&*panic);
                tracing::error!(worker = number, panic, "worker panicked; restarted");
                match worker() {
                    Ok(again) => next = again,
                    Err(error) => {
                        tracing::error!(%error, "controller worker ended");
                        return;
                    }
                }
            }
        };
        workers.spawn(format!("worker {number}"), worker.instrument(span.clone()));
    }
    Ok(())
}

/// Starts the retries of changes beside the workers, since predicates and handlers are foreign code, which may be slow.
fn start_retries(session: &Session, workers: &Scope) {
    let span = session.cluster().span();
    let (retries, stop) = (session.retries().clone(), session.cancellation().clone());
    let retrying = async move {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = retries.run() => {}
        }
    };
    workers.spawn("retries of changes", retrying.instrument(span.clone()));
}

/// Ends all tasks of the run within one limit; returns the unfinished work.
async fn clear_up(inner: &Inner, session: &Session, workers: &Scope) -> StopReport {
    session.stop();
    let begun = inner.take_begun();
    let sources = async {
        let stops = begun.iter().map(|(watch, begun)| async {
            tokio::select! {
                biased;
                () = begun.stop() => None,
                () = too_late(session) => Some(watch.name().to_owned()),
            }
        });
        let left = join_all(stops).await;
        // Only now, so that no item is dropped that a source has read.
        session.queue().shutdown();
        left.into_iter().flatten().collect::<Vec<_>>()
    };
    let books = &session.core().books;
    let reconciles = async {
        tokio::select! {
            biased;
            () = workers.wait_ended() => return (Vec::new(), Vec::new()),
            () = session.out_of_time() => workers.abort(),
        }
        let running =
            || books.iter().filter_map(WorkerHistory::running).map(|(request, _)| request).collect();
        tokio::select! {
            biased;
            () = workers.wait_ended() => (running(), Vec::new()),
            () = too_late(session) => (running(), workers.drain(Duration::ZERO).await.left().to_vec()),
        }
    };
    let (mut left_behind, (aborted, stuck)) = join(sources, reconciles).await;
    inner.undeclare();
    left_behind.extend(stuck);
    for book in books {
        book.abandon();
    }
    StopReport::new(aborted, session.left(), left_behind)
}

/// Waits for ended or aborted tasks for the grace period. Returns at once unless one of them blocks its thread.
async fn too_late(session: &Session) {
    session.out_of_time().await;
    session.clock().sleep(GRACE).await;
}

/// Marks a controller as running until it is dropped.
struct Up(Arc<ControllerMetrics>);

impl Up {
    fn new(metrics: &Arc<ControllerMetrics>) -> Self {
        metrics.running.set(1);
        Self(metrics.clone())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        self.0.running.set(0);
        self.0.ready.set(0);
        self.0.queue.end();
    }
}

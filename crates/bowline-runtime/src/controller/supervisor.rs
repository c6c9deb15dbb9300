//! The task of a controller that runs: keeps informers until it may work, begins its watches, waits until all is seen, lets
//! workers work, and clears up.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bowline_clock::{Scope, panic_message};
use futures::FutureExt as _;
use futures::future::{join, join_all};
use tokio::sync::watch;
use tracing::Instrument as _;

use super::duty::Duty;
use super::error::ControllerError;
use super::handle::{Inner, Phase, Stopped};
use super::session::Session;
use crate::journal::Book;
use crate::metrics::ControllerMetrics;

/// After so long, what a controller waits for is logged.
const PATIENCE: Duration = Duration::from_secs(10);

/// And again after so long each time.
const REMINDER: Duration = Duration::from_mins(1);

/// How long sources and workers may take to give way when their time is over.
const GRACE: Duration = Duration::from_secs(1);

/// Runs a controller until it is told to stop, or cannot go on.
pub(super) async fn supervise(
    inner: Arc<Inner>,
    session: Arc<Session>,
    duty: Duty,
    sync_timeout: Duration,
    phase: watch::Sender<Phase>,
) {
    let up = Up::new(&session.core().metrics);
    let life = live(&inner, &session, &duty, sync_timeout, &phase);
    let (ran, stopped) = tokio::select! {
        biased;
        never = duty.pass_on(&session) => match never {},
        life = life => life,
    };
    // Before anybody can start it again.
    drop(up);
    let result = match (ran, session.failure()) {
        (Err(error), _) => Err(error),
        (Ok(()), Some(failure)) => Err(failure.clone()),
        (Ok(()), None) => Ok(stopped.clone()),
    };
    match &result {
        // What waits is seen anew at the next start: nothing to worry about.
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
            "a controller ended"
        ),
    }
    let _ = phase.send(Phase::Ended(result));
}

/// From the first watch until all is cleared up.
async fn live(
    inner: &Inner,
    session: &Arc<Session>,
    duty: &Duty,
    sync_timeout: Duration,
    phase: &watch::Sender<Phase>,
) -> (Result<(), ControllerError>, Stopped) {
    let workers = session.spawner().scope("workers");
    let work = run(inner, session, &workers, duty, sync_timeout, phase);
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
    duty: &Duty,
    sync_timeout: Duration,
    phase: &watch::Sender<Phase>,
) -> Result<(), ControllerError> {
    let mut too_long = std::pin::pin!(wait(inner, session, sync_timeout));
    if !duty.go.is_cancelled() {
        let warm = inner.warm_up(session)?;
        let cached = async {
            join_all(warm.iter().map(|warm| warm.synced())).await;
        };
        tokio::select! {
            biased;
            () = session.cancellation().cancelled() => return Ok(()),
            // Who may work does not wait here: what is missing is waited for below.
            () = duty.go.cancelled() => {}
            () = cached => {
                tracing::info!(
                    controller = session.name(),
                    "all that a controller watches is in the cache, and it waits until it may reconcile"
                );
                let _ = phase.send(Phase::Warm);
                tokio::select! {
                    biased;
                    () = session.cancellation().cancelled() => return Ok(()),
                    () = duty.go.cancelled() => {}
                }
                too_long.set(wait(inner, session, sync_timeout));
            }
            error = &mut too_long => return Err(error),
        }
    }
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
        "a controller has seen all that there is, and begins to reconcile"
    );
    session.core().metrics.ready.set(1);
    let _ = phase.send(Phase::Working);
    session.cancellation().cancelled().await;
    Ok(())
}

/// Waits for as long as a controller may take to see all that there is, and says from time to time what is missing; then that
/// is the error.
async fn wait(inner: &Inner, session: &Session, limit: Duration) -> ControllerError {
    let (mut left, mut patience) = (limit, PATIENCE);
    while patience < left {
        session.clock().sleep(patience).await;
        for missing in inner.waiting_for() {
            tracing::warn!(controller = session.name(), %missing, "a controller still waits for what it watches");
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
            // Reconciles that panic are caught where they run. What is left are futures that panic when they are dropped.
            while let Err(panic) = AssertUnwindSafe(next).catch_unwind().await {
                let panic = panic_message(&*panic);
                tracing::error!(
                    worker = number,
                    panic,
                    "a worker of a controller panicked, and begins again"
                );
                match worker() {
                    Ok(again) => next = again,
                    Err(error) => {
                        tracing::error!(%error, "a worker of a controller ended");
                        return;
                    }
                }
            }
        };
        workers.spawn(format!("worker {number}"), worker.instrument(span.clone()));
    }
    Ok(())
}

/// Ends everything that the run began, within one limit; tells what was left undone.
async fn clear_up(inner: &Inner, session: &Session, workers: &Scope) -> Stopped {
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
        // Only now, so that nothing is dropped that a source had read.
        session.queue().shutdown();
        left.into_iter().flatten().collect::<Vec<_>>()
    };
    let books = &session.core().books;
    let reconciles = async {
        tokio::select! {
            biased;
            () = workers.ended() => return (Vec::new(), Vec::new()),
            () = session.out_of_time() => workers.abort(),
        }
        let running = || books.iter().filter_map(Book::running).map(|(request, _)| request).collect();
        tokio::select! {
            biased;
            () = workers.ended() => (running(), Vec::new()),
            () = too_late(session) => (running(), workers.drain(Duration::ZERO).await.left().to_vec()),
        }
    };
    let (mut left_behind, (aborted, stuck)) = join(sources, reconciles).await;
    left_behind.extend(stuck);
    for book in books {
        book.abandon();
    }
    Stopped::new(aborted, session.left(), left_behind)
}

/// Until what was to end, or was aborted, has had the time to: it is over as soon as its thread gets to it, unless it keeps
/// that.
async fn too_late(session: &Session) {
    session.out_of_time().await;
    session.clock().sleep(GRACE).await;
}

/// Shows that a controller runs, as long as this is there.
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

//! The task of a controller that runs: begins its watches, waits until all is seen, lets workers work, and clears up.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bowline_clock::{Scope, panic_message};
use futures::FutureExt as _;
use futures::future::join_all;
use tokio::sync::watch;

use super::error::ControllerError;
use super::handle::{Inner, Phase, Stopped};
use super::session::Session;
use crate::Request;
use crate::journal::Book;

/// After so long, what a controller waits for is logged.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a controller until it is told to stop, or cannot go on.
pub(super) async fn supervise(inner: Arc<Inner>, session: Arc<Session>, phase: watch::Sender<Phase>) {
    let workers = session.spawner().scope("workers");
    let result = run(&inner, &session, &workers, &phase).await;
    let stopped = clear_up(&inner, &session, &workers).await;
    let result = match (result, session.failure()) {
        (Err(error), _) => Err(error),
        (Ok(()), Some(failure)) => Err(failure.clone()),
        (Ok(()), None) => Ok(stopped),
    };
    match &result {
        Ok(stopped) if *stopped == Stopped::default() => {
            tracing::info!(controller = session.name(), "stopped");
        }
        Ok(stopped) => tracing::warn!(
            controller = session.name(),
            aborted = ?stopped.aborted(),
            waiting = stopped.waiting(),
            "stopped, and left something undone"
        ),
        Err(error) => tracing::error!(controller = session.name(), %error, "a controller ended"),
    }
    let _ = phase.send(Phase::Ended(result));
}

async fn run(
    inner: &Inner,
    session: &Arc<Session>,
    workers: &Scope,
    phase: &watch::Sender<Phase>,
) -> Result<(), ControllerError> {
    let begun = inner.begin(session)?;
    let synced = async {
        join_all(begun.iter().map(|begun| begun.synced())).await;
    };
    tokio::select! {
        biased;
        () = session.cancellation().cancelled() => return Ok(()),
        synced = wait(inner, session, synced) => synced?,
    }
    start_workers(inner, session, workers)?;
    tracing::info!(
        controller = session.name(),
        workers = session.core().options.concurrency,
        "a controller has seen all that there is, and begins to reconcile"
    );
    let _ = phase.send(Phase::Working);
    session.cancellation().cancelled().await;
    Ok(())
}

/// Waits until all that there is was seen, but not for ever.
async fn wait(
    inner: &Inner,
    session: &Session,
    synced: impl Future<Output = ()>,
) -> Result<(), ControllerError> {
    let limit = session.core().options.sync_timeout;
    let mut synced = std::pin::pin!(synced);
    let clock = session.clock();
    if limit > PATIENCE {
        if clock.timeout(PATIENCE, synced.as_mut()).await.is_ok() {
            return Ok(());
        }
        for missing in inner.waiting_for() {
            tracing::warn!(controller = session.name(), %missing, "a controller still waits for what it watches");
        }
    }
    let rest = if limit > PATIENCE { limit.saturating_sub(PATIENCE) } else { limit };
    if clock.timeout(rest, synced).await.is_ok() {
        return Ok(());
    }
    let controller = session.name().to_owned();
    Err(ControllerError::NotSynced { controller, limit, missing: inner.waiting_for() })
}

fn start_workers(inner: &Inner, session: &Arc<Session>, workers: &Scope) -> Result<(), ControllerError> {
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
        workers.spawn(format!("worker {number}"), async move {
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
        });
    }
    Ok(())
}

/// Ends everything that the run began; tells what was left undone.
async fn clear_up(inner: &Inner, session: &Session, workers: &Scope) -> Stopped {
    session.close();
    let begun = inner.take_begun();
    join_all(begun.iter().map(|begun| begun.stop())).await;
    let drained = workers.drain(session.core().options.stop_timeout).await;
    let books = &session.core().books;
    let aborted: Vec<Request> = if drained.left().is_empty() {
        Vec::new()
    } else {
        books.iter().filter_map(Book::running).map(|(request, _)| request).collect()
    };
    workers.ended().await;
    for book in books {
        book.abandon();
    }
    Stopped::new(aborted, session.left())
}

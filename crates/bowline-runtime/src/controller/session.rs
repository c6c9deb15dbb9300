//! The data that the parts of a running controller share: `Core` for its whole life, `Session` for one run.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use bowline_clock::{Clock, Instant, Scope, Spawner};
use bowline_workqueue::{AddOptions, QueueStats, RateLimiter, WorkQueue};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::builder::RetriesExhausted;
use super::error::ControllerError;
use super::queue_payload::QueuePayload;
use super::states::States;
use super::wall_deadlines::WallDeadlines;
use crate::metrics::ControllerMetrics;
use crate::predicate::Predicate;
use crate::reconcile_history::WorkerHistory;
use crate::source::{ChangeRetries, Named};
use crate::trigger::{Trigger, TriggerSource};
use crate::{Cause, Client, Cluster, HasMetadata, KindDescription, Recorder, Request};

pub(crate) type MakeLimiter = Box<dyn Fn() -> Box<dyn RateLimiter<Request>> + Send + Sync>;
pub(crate) type GiveUp = Box<dyn Fn(&RetriesExhausted<'_>) + Send + Sync>;
pub(crate) type Filters = Arc<[Named<dyn Predicate<dyn HasMetadata>>]>;

/// The options of a controller.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct Options {
    pub(crate) concurrency: NonZeroUsize,
    pub(crate) limiter: MakeLimiter,
    pub(crate) max_retries: Option<(u32, GiveUp)>,
    /// `Some` if it was set.
    pub(crate) sync_timeout: Option<Duration>,
    pub(crate) timeout: Duration,
    pub(crate) stop_timeout: Duration,
    pub(crate) recover_panics: bool,
    pub(crate) resync: Option<Duration>,
    pub(crate) needs_leadership: bool,
    pub(crate) warm_up: bool,
    pub(crate) required: bool,
}

/// The data of a controller that never changes.
pub(crate) struct Core {
    pub(crate) name: Arc<str>,
    /// API group of the reconciled kind; empty for the core group, and without a kind.
    pub(crate) group: String,
    pub(crate) kind: String,
    /// The reconciled kind, if there is one.
    pub(crate) reconciled: Option<KindDescription>,
    pub(crate) cluster: Cluster,
    pub(crate) client: Client,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Arc<ControllerMetrics>,
    pub(crate) options: Options,
    pub(crate) state: States,
    pub(crate) filters: Filters,
    /// The source of the trigger of a requeued run.
    pub(crate) requeued: Arc<TriggerSource>,
    /// The source of the trigger of a run that was requested by hand.
    pub(crate) by_hand: Arc<TriggerSource>,
    /// One for each worker.
    pub(crate) books: Vec<WorkerHistory>,
}

/// One run of a controller, from start to stop.
pub(crate) struct Session {
    core: Arc<Core>,
    queue: WorkQueue<Request, QueuePayload>,
    /// Requests that wait for a time of the wall clock, beside the queue.
    wall_deadlines: WallDeadlines,
    /// Changes for which a predicate or handler panicked.
    retries: Arc<ChangeRetries>,
    cancellation: CancellationToken,
    /// Scope of the tasks of its sources.
    scope: Scope,
    /// No more runs begin. Beside the token because workers check it for each request.
    stopping: AtomicBool,
    /// Time at which running reconciles are dropped: the earliest of all stops.
    deadline: watch::Sender<Option<Instant>>,
    /// Requests that workers got after that.
    left: AtomicUsize,
    failure: std::sync::OnceLock<ControllerError>,
}

impl Session {
    pub(super) fn new(core: Arc<Core>, limiter: Box<dyn RateLimiter<Request>>) -> Self {
        let queue = WorkQueue::builder(core.cluster.clock().clone())
            .limiter(limiter)
            .metrics(core.metrics.queue.sink())
            .build();
        let spawner = core.cluster.spawner();
        let scope = spawner.scope(format!("controller {}", core.name));
        // Sources stop reading when the run stops, so that unread items are not lost.
        let cancellation = scope.cancellation();
        let retries = ChangeRetries::new(core.cluster.clock().clone());
        Self {
            core,
            retries,
            queue,
            wall_deadlines: WallDeadlines::default(),
            cancellation,
            scope,
            stopping: AtomicBool::new(false),
            deadline: watch::Sender::new(None),
            left: AtomicUsize::new(0),
            failure: std::sync::OnceLock::new(),
        }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn name(&self) -> &str {
        &self.core.name
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.core.cluster
    }

    pub(crate) fn client(&self) -> &Client {
        &self.core.client
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.core.recorder
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.core.cluster.clock()
    }

    pub(crate) fn queue(&self) -> &WorkQueue<Request, QueuePayload> {
        &self.queue
    }

    pub(crate) fn retries(&self) -> &Arc<ChangeRetries> {
        &self.retries
    }

    pub(super) fn wall_deadlines(&self) -> &WallDeadlines {
        &self.wall_deadlines
    }

    /// Moves requests for a time of the wall clock into the queue, as long as it is polled.
    pub(super) async fn watch_wall_clock(&self) {
        let add = |(request, priority)| {
            let trigger = Trigger::own(self.core.requeued.clone(), Cause::Requeued);
            (request, AddOptions::new(QueuePayload::new(trigger)).priority(priority))
        };
        self.wall_deadlines.run(self.clock(), |due| self.queue.add_all(due.into_iter().map(add))).await;
    }

    /// Numbers of keys by state; those for a time of the wall clock count as delayed.
    pub(super) fn stats(&self) -> QueueStats {
        let mut stats = self.queue.stats();
        stats.delayed += self.wall_deadlines.len();
        stats
    }

    /// The next scheduled requests and their wall-clock times, earliest first.
    pub(super) fn delayed(&self, count: usize) -> Vec<(Request, SystemTime)> {
        let (wall, now) = (self.clock().system_time(), self.clock().now());
        let time = |due: Instant| wall.checked_add(due.duration_since(now));
        let delayed = self.queue.delayed(count).into_iter();
        let mut delayed: Vec<_> = delayed.filter_map(|(request, due)| Some((request, time(due)?))).collect();
        delayed.extend(self.wall_deadlines.next(count));
        delayed.sort_by_key(|(_, due)| *due);
        delayed.truncate(count);
        delayed
    }

    pub(crate) fn filters(&self) -> &Filters {
        &self.core.filters
    }

    pub(crate) fn spawner(&self) -> Spawner {
        self.scope.spawner()
    }

    pub(crate) fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Counts a request that a worker got but may not start.
    pub(super) fn leave(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// Numbers of requests that were never started or never retried, and of changes that were not mapped to requests.
    pub(super) fn left(&self) -> usize {
        let stats = self.queue.stats();
        let dropped = usize::try_from(stats.dropped).unwrap_or(usize::MAX);
        self.left.load(Ordering::Relaxed)
            + stats.ready
            + dropped
            + self.wall_deadlines.len()
            + self.retries.waiting()
    }

    /// Stops new reconciles and cancels the running ones.
    pub(super) fn stop(&self) {
        self.stop_within(self.core.options.stop_timeout);
    }

    /// The same, with another limit. Of several limits, the earliest counts.
    pub(super) fn stop_within(&self, limit: Duration) {
        let end = self.clock().now() + limit;
        self.deadline.send_if_modified(|deadline| {
            let is_earlier = deadline.is_none_or(|deadline| end < deadline);
            if is_earlier {
                *deadline = Some(end);
            }
            is_earlier
        });
        self.stopping.store(true, Ordering::Relaxed);
        self.cancellation.cancel();
    }

    /// Waits until the time of running reconciles is over; for ever without a stop.
    pub(super) async fn out_of_time(&self) {
        let mut deadline = self.deadline.subscribe();
        loop {
            let end = *deadline.borrow_and_update();
            tokio::select! {
                biased;
                _ = deadline.changed() => {}
                () = self.clock().sleep_until(end.unwrap_or(Instant::MAX)) => return,
            }
        }
    }

    /// Ends the run with an error.
    pub(super) fn fail(&self, error: ControllerError) {
        let _ = self.failure.set(error);
        self.stop();
    }

    pub(super) fn failure(&self) -> Option<&ControllerError> {
        self.failure.get()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("controller", &self.core.name).finish_non_exhaustive()
    }
}

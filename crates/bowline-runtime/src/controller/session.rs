//! What the parts of a running controller share: that which is the same for its whole life, and that of one run.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bowline_clock::{Clock, Instant, Scope, Spawner};
use bowline_workqueue::{RateLimiter, WorkQueue};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::builder::GaveUp;
use super::error::ControllerError;
use super::pending::Pending;
use crate::journal::Book;
use crate::metrics::ControllerMetrics;
use crate::predicate::Predicate;
use crate::trigger::Origin;
use crate::{Client, Cluster, Recorder, Request};

pub(crate) type MakeLimiter = Box<dyn Fn() -> Box<dyn RateLimiter<Request>> + Send + Sync>;
pub(crate) type GiveUp = Box<dyn Fn(&GaveUp<'_>) + Send + Sync>;
pub(crate) type Filters = Arc<[Box<dyn Predicate<ObjectMeta>>]>;

/// What was chosen when the controller was built.
pub(crate) struct Options {
    pub(crate) concurrency: NonZeroUsize,
    pub(crate) limiter: MakeLimiter,
    pub(crate) max_retries: Option<(u32, GiveUp)>,
    /// If it was said.
    pub(crate) sync_timeout: Option<Duration>,
    pub(crate) timeout: Duration,
    pub(crate) stop_timeout: Duration,
    pub(crate) recover_panics: bool,
    pub(crate) resync: Option<Duration>,
    pub(crate) needs_leadership: bool,
    pub(crate) warm_up: bool,
}

/// What a controller is for its whole life.
pub(crate) struct Core {
    pub(crate) name: Arc<str>,
    /// Of the kind that it reconciles; empty for the core group, and if there is no such kind.
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) cluster: Cluster,
    pub(crate) client: Client,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Arc<ControllerMetrics>,
    pub(crate) options: Options,
    pub(crate) filters: Filters,
    /// By which runs are told why they come again.
    pub(crate) requeued: Arc<Origin>,
    /// By which runs are told that somebody asked for them.
    pub(crate) by_hand: Arc<Origin>,
    /// One for each worker.
    pub(crate) books: Vec<Book>,
}

/// One run of a controller, from start to stop.
pub(crate) struct Session {
    core: Arc<Core>,
    queue: WorkQueue<Request, Pending>,
    cancellation: CancellationToken,
    /// Where the tasks of its sources live.
    scope: Scope,
    /// No more runs begin. Beside the token because workers look at it each time.
    stopping: AtomicBool,
    /// When reconciles that still run are dropped: the earliest of all that was said.
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
        // So that sources stop to read when the run is told to stop: what they have not read is not lost.
        let cancellation = scope.cancellation();
        Self {
            core,
            queue,
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

    pub(crate) fn queue(&self) -> &WorkQueue<Request, Pending> {
        &self.queue
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

    /// A worker got a request that it may not begin with.
    pub(super) fn leave(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests were never begun with, or never tried again.
    pub(super) fn left(&self) -> usize {
        let stats = self.queue.stats();
        let dropped = usize::try_from(stats.dropped).unwrap_or(usize::MAX);
        self.left.load(Ordering::Relaxed) + stats.ready + dropped
    }

    /// No more reconciles begin, and those that run are told.
    pub(super) fn stop(&self) {
        self.stop_within(self.core.options.stop_timeout);
    }

    /// The same, with another limit. Of several, the one that is over first counts.
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

    /// Until what was begun has had its time; for ever, if it is not told to stop.
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

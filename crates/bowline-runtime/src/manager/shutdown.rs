//! The shutdown of a manager: order, timeouts, and runnables that do not end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bowline_clock::Instant;
use futures::future::{join, join_all};

use super::error::ManagerError;
use super::lifecycle::{Inner, Phase};
use super::runnable::Stage;

/// Part of the shutdown timeout that is reserved for its end: the lease, and pending events.
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// Minimum time for a stage to end, when earlier stages used up the timeout.
const MIN_STAGE_TIME: Duration = Duration::from_millis(500);

/// Time for runnables that must end at once. A controller needs up to a second to find workers that cannot be aborted;
/// without that result the lease would be released too early.
const ABORT_TIME: Duration = Duration::from_secs(3);

/// Aborts everything if it is dropped before the end of the shutdown.
pub(super) struct AbortOnDrop<'a>(pub(super) &'a Inner);

impl Drop for AbortOnDrop<'_> {
    fn drop(&mut self) {
        let inner = self.0;
        inner.state().phase = Phase::Stopping;
        inner.stop.cancel();
        if let Some(elector) = &inner.elector {
            elector.fence().close();
        }
        for stage in Stage::ALL {
            // Controllers of further clusters run in other scopes.
            inner.groups.of(stage).now().cancel();
        }
        inner.scope.abort();
        inner.drop_contents();
    }
}

impl Inner {
    /// Stops everything, in order.
    pub(super) async fn shut_down(&self) -> Result<(), ManagerError> {
        self.state().phase = Phase::Stopping;
        let began = self.clock().now();
        let mut late = Vec::new();
        for stage in [Stage::EveryReplica, Stage::Elected, Stage::Cache] {
            late.extend(self.end(stage, began).await);
        }
        let clusters = self.clusters();
        let stopped = join_all(clusters.iter().map(|cluster| cluster.cache().stop()));
        if self.clock().timeout(self.left(began), stopped).await.is_err() {
            late.push("informers".to_owned());
        }
        for stage in [Stage::Webhook, Stage::Server] {
            late.extend(self.end(stage, began).await);
        }
        late.extend(self.close(began).await);
        if self.graceful_shutdown.is_zero() {
            // With a timeout of zero there is no wait, so no runnable is late.
            late.clear();
        }
        for runnable in &late {
            tracing::error!(runnable, limit = ?self.graceful_shutdown, "runnable did not end in time; aborted");
        }
        let failures = std::mem::take(&mut self.state().failures);
        if failures.is_empty() && late.is_empty() {
            tracing::info!("manager stopped");
            return Ok(());
        }
        Err(ManagerError::Ended { failures, left_behind: late })
    }

    /// Stops a stage. Returns the names of runnables that did not end gracefully.
    async fn end(&self, stage: Stage, began: Instant) -> Vec<String> {
        let group = self.groups.of(stage);
        let mut late = group.end(self.clock(), self.left(began), ABORT_TIME).await;
        let behind = std::mem::take(&mut self.state().left_behind);
        if stage == Stage::Elected && !(behind.is_empty() && group.running().is_empty()) {
            self.is_leader_work_left.store(true, Ordering::Relaxed);
        }
        // A runnable that reported its remaining parts is not named again.
        late.retain(|name| !behind.iter().any(|part| part.starts_with(&format!("{name}: "))));
        late.extend(behind);
        late
    }

    /// Releases the lease, since all leader-only work has stopped, and writes pending events.
    async fn close(&self, began: Instant) -> Option<String> {
        self.over.cancel();
        let clusters = self.clusters();
        let limit = match self.graceful_shutdown {
            Duration::MAX => Duration::MAX,
            limit => {
                limit.saturating_sub(self.clock().now().duration_since(began)).max(CLOSE_TIME.min(limit))
            }
        };
        let flushed = join_all(clusters.iter().map(|cluster| cluster.events().stop(limit.min(CLOSE_TIME))));
        let candidate_ended = async {
            if self.elector.is_some() && self.has_joined_election() {
                self.candidate_ended.cancelled().await;
            }
        };
        let ended = self.clock().timeout(limit.max(ABORT_TIME), join(flushed, candidate_ended)).await;
        ended.is_err().then(|| "events, or the lease".to_owned())
    }

    /// The remaining time for a stage. There is a minimum, also after late stages.
    fn left(&self, began: Instant) -> Duration {
        match self.graceful_shutdown {
            Duration::MAX => Duration::MAX,
            Duration::ZERO => Duration::ZERO,
            limit => {
                let stages = limit.saturating_sub(CLOSE_TIME.min(limit / 4));
                stages.saturating_sub(self.clock().now().duration_since(began)).max(MIN_STAGE_TIME)
            }
        }
    }
}

//! The end of a manager: what stops in which order, within which time, and what is left of it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bowline_clock::Instant;
use futures::future::{join, join_all};

use super::error::ManagerError;
use super::lifecycle::{Inner, Phase};
use super::runnable::Stage;

/// How much of the time for a stop is kept for its end: the lease, and events that wait.
const RESERVE: Duration = Duration::from_secs(5);

/// How long a stage has to end, when those before it took all the time there was.
const LEAST: Duration = Duration::from_millis(500);

/// How long what is told to end at once may take for that. A controller needs up to a second to know which of its workers cannot
/// be ended, and whoever does not hear of those gives the lease up too early.
const MOMENT: Duration = Duration::from_secs(3);

/// Aborts everything, unless the end was reached.
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
            // Controllers of further clusters live elsewhere.
            inner.groups.of(stage).now().cancel();
        }
        inner.scope.abort();
        inner.let_go();
    }
}

impl Inner {
    /// Ends everything, in order.
    pub(super) async fn shut_down(&self) -> Result<(), ManagerError> {
        self.state().phase = Phase::Stopping;
        let began = self.clock().now();
        let mut late = Vec::new();
        for stage in [Stage::Other, Stage::Elected, Stage::Cache] {
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
            // Nobody is waited for, so that nobody is late.
            late.clear();
        }
        for runnable in &late {
            tracing::error!(runnable, limit = ?self.graceful_shutdown, "did not end in time, and is left behind");
        }
        let failures = std::mem::take(&mut self.state().failures);
        if failures.is_empty() && late.is_empty() {
            tracing::info!("the manager has stopped");
            return Ok(());
        }
        Err(ManagerError::Ended { failures, left_behind: late })
    }

    /// Ends a stage. Gives the names of what did not end when it was told to.
    async fn end(&self, stage: Stage, began: Instant) -> Vec<String> {
        let group = self.groups.of(stage);
        let mut late = group.end(self.clock(), self.left(began), MOMENT).await;
        let behind = std::mem::take(&mut self.state().left_behind);
        if stage == Stage::Elected && !(behind.is_empty() && group.running().is_empty()) {
            self.acts.store(true, Ordering::Relaxed);
        }
        // Whoever said which of its parts are left is not named a second time.
        late.retain(|name| !behind.iter().any(|part| part.starts_with(&format!("{name}: "))));
        late.extend(behind);
        late
    }

    /// Nothing acts any more: the next one may. Events that wait are written.
    async fn close(&self, began: Instant) -> Option<String> {
        self.over.cancel();
        let clusters = self.clusters();
        let limit = match self.graceful_shutdown {
            Duration::MAX => Duration::MAX,
            limit => limit.saturating_sub(self.clock().now().since(began)).max(RESERVE.min(limit)),
        };
        let flushed = join_all(clusters.iter().map(|cluster| cluster.events().shutdown(limit.min(RESERVE))));
        let left_office = async {
            if self.elector.is_some() && self.has_stood() {
                self.left_office.cancelled().await;
            }
        };
        let ended = self.clock().timeout(limit.max(MOMENT), join(flushed, left_office)).await;
        ended.is_err().then(|| "events, or the lease".to_owned())
    }

    /// How much time is left for a stage to end. Who comes late because of others has a little all the same.
    fn left(&self, began: Instant) -> Duration {
        match self.graceful_shutdown {
            Duration::MAX => Duration::MAX,
            Duration::ZERO => Duration::ZERO,
            limit => {
                let stages = limit.saturating_sub(RESERVE.min(limit / 4));
                stages.saturating_sub(self.clock().now().since(began)).max(LEAST)
            }
        }
    }
}

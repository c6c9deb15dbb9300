//! A replica in the election: when it competes, and what it does when it gains and loses leadership.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bowline_clock::panic_message;
use futures::FutureExt as _;

use super::lifecycle::Inner;
use super::runnable::Stage;
use crate::controller::{Controller, UnsyncedSource};
use crate::leader_election::LeaderElector;
use crate::{Cluster, Error};

/// Time for which a replica with unsynced caches leaves the lease to others.
const WARM_UP_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval at which that is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

impl Inner {
    /// Runs the election in the background, until [`over`](Inner::over).
    pub(super) fn run_election(self: &Arc<Self>, elector: &Arc<LeaderElector>) {
        let (inner, elector) = (self.clone(), elector.clone());
        self.scope.spawn("candidate", async move {
            let stood = AssertUnwindSafe(inner.compete(&elector)).catch_unwind().await;
            if let Err(panic) = stood {
                inner.leadership_lost(
                    &elector,
                    Error::message(format!("it panicked: {}", panic_message(&*panic))),
                );
            }
            inner.candidate_ended.cancel();
        });
    }

    /// Competes, leads, and releases the lease at the end.
    async fn compete(&self, elector: &LeaderElector) {
        self.wait_warm().await;
        // A manager that stops does not start to lead.
        let Some(leadership) = elector.acquire_unless(self.stop.cancelled()).await else { return };
        self.elected.cancel();
        let lost = tokio::select! {
            biased;
            () = self.over.cancelled() => {
                if self.is_leader_work_left.load(Ordering::Relaxed) {
                    // The next leader must wait until the lease has expired.
                    tracing::warn!("leader-only work still running; lease left to expire");
                    return leadership.abandon();
                }
                return leadership.release().await;
            }
            lost = leadership.renew_until_lost() => lost,
        };
        self.leadership_lost(elector, lost.into());
    }

    /// Stops leader-only work at once, because another replica may lead already, and then the manager.
    fn leadership_lost(&self, elector: &LeaderElector, error: Error) {
        elector.fence().close();
        self.groups.of(Stage::Elected).now().cancel();
        tracing::error!(%error, "leadership lost; manager stops");
        self.stop_after("leader election", error);
    }

    /// Waits until the caches of controllers have synced, so that a new leader can start at once. Does not wait for
    /// controllers that cannot sync, for further clusters, or for long.
    async fn wait_warm(&self) {
        let warm = async {
            while self.controllers().iter().any(|controller| is_warming(controller, &self.cluster)) {
                self.cluster.clock().sleep(CHECK_INTERVAL).await;
            }
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            _is_warm = self.cluster.clock().timeout(WARM_UP_TIMEOUT, warm) => {}
        }
    }
}

/// Whether a controller is about to sync caches of the manager's own cluster.
fn is_warming(controller: &Controller, own: &Cluster) -> bool {
    if !controller.needs_leadership() || !controller.warms_up() || controller.is_warm() {
        return false;
    }
    let waiting = controller.waiting_for();
    let is_due = |waiting: &UnsyncedSource| !waiting.is_denied() && waiting.cluster() == own.name();
    waiting.is_empty() || waiting.iter().any(is_due)
}

//! A replica in the election: when it stands, what it does when it leads, and when it does not any more.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bowline_clock::panic_message;
use futures::FutureExt as _;

use super::lifecycle::Inner;
use super::runnable::Stage;
use crate::Error;
use crate::controller::Controller;
use crate::leader_election::Elector;

/// How long a replica that is not warm yet leaves it to others to lead.
const WARM_LIMIT: Duration = Duration::from_secs(30);

/// How often it is looked whether it is.
const LOOK: Duration = Duration::from_millis(100);

impl Inner {
    /// Stands for election beside everything else, until [`over`](Inner::over).
    pub(super) fn run_for_office(self: &Arc<Self>, elector: &Arc<Elector>) {
        let (inner, elector) = (self.clone(), elector.clone());
        self.scope.spawn("candidate", async move {
            let stood = AssertUnwindSafe(inner.stand(&elector)).catch_unwind().await;
            if let Err(panic) = stood {
                inner.lose(&elector, Error::message(format!("it panicked: {}", panic_message(&*panic))));
            }
            inner.left_office.cancel();
        });
    }

    /// Stands for election, leads, and gives the lease up when all is over.
    async fn stand(&self, elector: &Elector) {
        self.warmed().await;
        // Who is about to end does not begin to lead.
        let Some(leadership) = elector.acquire_unless(self.stop.cancelled()).await else { return };
        self.elected.cancel();
        let lost = tokio::select! {
            biased;
            () = self.over.cancelled() => {
                if self.acts.load(Ordering::Relaxed) {
                    // The next one is to wait until the lease has run out.
                    tracing::warn!("something that needs leadership has not ended: the lease is kept until it runs out");
                    return leadership.abandon();
                }
                return leadership.release().await;
            }
            lost = leadership.hold() => lost,
        };
        self.lose(elector, lost.into());
    }

    /// This replica does not lead any more: others may act already.
    fn lose(&self, elector: &Elector, error: Error) {
        elector.fence().close();
        self.groups.of(Stage::Elected).now().cancel();
        self.fail("leader election", error);
    }

    /// Until controllers have seen what there is, so that whoever takes over is ready to act; but not for those that cannot,
    /// and not for long.
    async fn warmed(&self) {
        let warm = async {
            while self.controllers().iter().any(warms) {
                self.cluster.clock().sleep(LOOK).await;
            }
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            _is_warm = self.cluster.clock().timeout(WARM_LIMIT, warm) => {}
        }
    }
}

/// Whether a controller is about to see what there is.
fn warms(controller: &Controller) -> bool {
    if !controller.needs_leadership() || !controller.warms_up() || controller.is_warm() {
        return false;
    }
    let waiting = controller.waiting_for();
    waiting.is_empty() || waiting.iter().any(|waiting| !waiting.is_denied())
}

//! The signals to a running controller: when to begin to reconcile, and how to end.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::session::Session;

/// Signals to a running controller. Each is given by cancelling its token, and cannot be revoked.
#[derive(Clone, Debug)]
pub(crate) struct RunControl {
    /// Reconciles begin as soon as its caches have synced. Until then it only keeps informers, and queues nothing.
    pub(crate) may_reconcile: CancellationToken,
    /// Stop: running reconciles have until their limit.
    pub(crate) stop: CancellationToken,
    /// Stop at once: running reconciles are dropped at their next await, also during a graceful stop.
    pub(crate) abort: CancellationToken,
}

impl RunControl {
    /// Signals of a controller without a manager: it reconciles from the start, and is stopped by its handle.
    pub(super) fn none() -> Self {
        let go = CancellationToken::new();
        go.cancel();
        Self { may_reconcile: go, stop: CancellationToken::new(), abort: CancellationToken::new() }
    }

    /// Passes the stop signals on to a run.
    pub(super) async fn pass_on(&self, session: &Session) -> Infallible {
        tokio::select! {
            biased;
            () = self.abort.cancelled() => {}
            () = self.stop.cancelled() => {
                session.stop();
                self.abort.cancelled().await;
            }
        }
        session.stop_within(Duration::ZERO);
        pending().await
    }
}

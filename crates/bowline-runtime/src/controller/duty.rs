//! What a controller that runs is told by who runs it: when to begin to work, and how to end.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::session::Session;

/// What a controller is told while it runs. Each is said by cancelling the token, and is never taken back.
#[derive(Clone, Debug)]
pub(crate) struct Duty {
    /// It may reconcile, as soon as it has seen all that there is. Until then it only keeps informers, and queues nothing.
    pub(crate) go: CancellationToken,
    /// It is to stop: what is reconciled is waited for, up to its limit.
    pub(crate) stop: CancellationToken,
    /// It is to stop at once: what is reconciled is dropped where it waits, also if it is being waited for.
    pub(crate) now: CancellationToken,
}

impl Duty {
    /// Of a controller that nobody manages: it works from the start, and is stopped by its handle.
    pub(super) fn none() -> Self {
        let go = CancellationToken::new();
        go.cancel();
        Self { go, stop: CancellationToken::new(), now: CancellationToken::new() }
    }

    /// Passes on what a run is told about its end.
    pub(super) async fn pass_on(&self, session: &Session) -> Infallible {
        tokio::select! {
            biased;
            () = self.now.cancelled() => {}
            () = self.stop.cancelled() => {
                session.stop();
                self.now.cancelled().await;
            }
        }
        session.stop_within(Duration::ZERO);
        pending().await
    }
}

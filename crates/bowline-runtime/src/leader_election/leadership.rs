//! A term of leadership: renews the lease until it is lost, released or abandoned.

use std::fmt;
use std::time::Duration;

use super::elector::{LeaderElector, LeaseAttempt};

/// This candidate holds the lease. See [`renew_until_lost`](Self::renew_until_lost).
#[must_use = "a lease that nobody holds is lost"]
pub struct Leadership<'e> {
    elector: &'e LeaderElector,
}

/// This candidate no longer holds the lease.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeadershipLost {
    /// The lease could not be renewed in time.
    #[error("leadership lost: {election} was not renewed within {deadline:?}: {last}")]
    NotRenewed {
        /// The lease, as `namespace/name`.
        election: String,
        /// The renew deadline.
        deadline: Duration,
        /// The result of the last attempt.
        last: String,
    },
    /// Another candidate holds the lease.
    #[error("leadership lost: {election} is held by {holder} now")]
    Taken {
        /// The lease, as `namespace/name`.
        election: String,
        /// The holder of the lease.
        holder: String,
    },
}

impl<'e> Leadership<'e> {
    pub(super) fn new(elector: &'e LeaderElector) -> Self {
        Self { elector }
    }

    /// Renews the lease until it is lost, and returns the reason. The [fence](LeaderElector::fence) is closed then.
    pub async fn renew_until_lost(&self) -> LeadershipLost {
        let lost = self.renew().await;
        self.elector.stop_leading();
        lost
    }

    async fn renew(&self) -> LeadershipLost {
        let LeaderElector { options, clock, fence, .. } = self.elector;
        let election = options.to_string();
        let mut last = "this process was frozen, or too busy to try".to_owned();
        loop {
            let Ok(left) = fence.remaining() else {
                return LeadershipLost::NotRenewed { election, deadline: options.renew_deadline, last };
            };
            clock.sleep(options.retry_period.min(left)).await;
            let Ok(left) = fence.remaining() else { continue };
            match clock.timeout(left, self.elector.attempt()).await {
                Ok(Ok(LeaseAttempt::Held)) => {}
                Ok(Ok(LeaseAttempt::HeldByOther(_))) => {
                    let holder = self.elector.leader().unwrap_or_else(|| "another candidate".to_owned());
                    return LeadershipLost::Taken { election, holder };
                }
                Ok(Err(error)) => {
                    last = crate::error::describe(&error);
                    tracing::warn!(lease = %options, error = %last, "cannot renew the lease; will retry");
                }
                Err(_) => "the server did not answer".clone_into(&mut last),
            }
        }
    }

    /// Stops leading: closes the fence, and releases the lease if the options say so, so that another candidate can
    /// take it at once. Call it after all leader-only work has stopped; otherwise call [`abandon`](Self::abandon).
    ///
    /// Failed requests are retried until the renew deadline; after that the lease is left to expire.
    pub async fn release(self) {
        self.elector.stop_leading();
        if self.elector.options.release_on_stop {
            self.elector.release_lease().await;
        }
    }

    /// Stops leading without a request: closes the fence, and leaves the lease to expire.
    ///
    /// Use it when leader-only work did not stop. The fence blocks its writes to the API server, but not its other
    /// effects. So the next leader must wait for the lease duration, not start at once as after
    /// [`release`](Self::release).
    pub fn abandon(self) {
        self.elector.stop_leading();
        tracing::warn!(lease = %self.elector.options, "leadership released; lease left to expire");
    }
}

impl fmt::Debug for Leadership<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Leadership").field(&self.elector).finish()
    }
}

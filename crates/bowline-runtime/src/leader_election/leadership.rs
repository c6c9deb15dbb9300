//! A term: the lease is renewed until it is lost, given up or left alone.

use std::fmt;
use std::time::Duration;

use super::elector::{Elector, Try};

/// The lease is ours. See [`hold`](Self::hold).
#[must_use = "a lease that nobody holds is lost"]
pub struct Leadership<'e> {
    elector: &'e Elector,
}

/// The lease is not ours any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// It could not be renewed in time.
    #[error("leader election lost: {election} was not renewed within {deadline:?}: {last}")]
    NotRenewed {
        /// The lease, as `namespace/name`.
        election: String,
        /// How long it was tried.
        deadline: Duration,
        /// What the last try came to.
        last: String,
    },
    /// Somebody else has it.
    #[error("leader election lost: {election} is held by {holder} now")]
    Taken {
        /// The lease, as `namespace/name`.
        election: String,
        /// Who has it.
        holder: String,
    },
}

impl<'e> Leadership<'e> {
    pub(super) fn new(elector: &'e Elector) -> Self {
        Self { elector }
    }

    /// Renews the lease until it is lost, and says why it was. The [fence](Elector::fence) is closed then.
    pub async fn hold(&self) -> Lost {
        let lost = self.renew().await;
        self.elector.stop_leading();
        lost
    }

    async fn renew(&self) -> Lost {
        let Elector { options, clock, fence, .. } = self.elector;
        let election = options.to_string();
        let mut last = "this process was frozen, or too busy to try".to_owned();
        loop {
            let Ok(left) = fence.remaining() else {
                return Lost::NotRenewed { election, deadline: options.renew_deadline, last };
            };
            clock.sleep(options.retry_period.min(left)).await;
            let Ok(left) = fence.remaining() else { continue };
            match clock.timeout(left, self.elector.attempt()).await {
                Ok(Ok(Try::Ours)) => {}
                Ok(Ok(Try::Theirs(_))) => {
                    let holder = self.elector.leader().unwrap_or_else(|| "another candidate".to_owned());
                    return Lost::Taken { election, holder };
                }
                Ok(Err(error)) => {
                    last = crate::error::describe(&error);
                    tracing::warn!(lease = %options, error = %last, "cannot renew the lease, trying again");
                }
                Err(_) => "the server did not answer".clone_into(&mut last),
            }
        }
    }

    /// Stops leading: closes the fence, and gives the lease up, if the options say so, so that another candidate may take it
    /// at once. To be called when all that needs leadership has stopped; if it did not, see [`abandon`](Self::abandon).
    ///
    /// A server that does not answer, or says no, is asked again until the renew deadline is over: then the lease is left
    /// to end by itself.
    pub async fn release(self) {
        self.elector.stop_leading();
        if self.elector.options.release_on_stop {
            self.elector.give_up().await;
        }
    }

    /// Stops leading without a word to the server: closes the fence, and leaves the lease to end by itself.
    ///
    /// For when something that needs leadership did not stop although it was told to. The fence keeps back what it writes
    /// to the API server, but not what it does elsewhere: whoever takes over should find the lease's duration between that
    /// and its own beginning, and not come at once, as after [`release`](Self::release).
    pub fn abandon(self) {
        self.elector.stop_leading();
        tracing::warn!(lease = %self.elector.options, "leads no more, and leaves the lease to end by itself");
    }
}

impl fmt::Debug for Leadership<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Leadership").field(&self.elector).finish()
    }
}

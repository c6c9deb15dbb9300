//! Leader election on a `Lease`: one of several replicas is active.
//!
//! Owns the start and the end of leadership. The manager starts and stops leader-only work.

mod elector;
mod fence;
mod hooks;
mod leadership;
mod lease;
mod observation;
mod upgraded;

use std::fmt;
use std::time::Duration;

use bowline_clock::Clock;

use crate::{Permission, election_permissions};

pub use elector::{LeaderElector, LeaseExpired};
pub(crate) use fence::Fenced;
pub use fence::{Fence, FenceClosed};
pub(crate) use hooks::{LeadershipHook, NewLeaderHook};
pub use leadership::{Leadership, LeadershipLost};

/// Factor by which a random jitter extends the pause between attempts, so that candidates do not act in step.
const JITTER: f64 = 1.2;

/// The longest lease duration that the object can hold: a positive `i32` of seconds.
const LONGEST: Duration = Duration::from_secs(i32::MAX.unsigned_abs() as u64);

/// Options of a leader election. Create them with [`LeaderElectionConfig::new`], and a candidate with
/// [`build`](LeaderElectionConfig::build).
#[derive(Clone, Debug)]
#[must_use = "options do nothing until `build`"]
pub struct LeaderElectionConfig {
    namespace: String,
    name: String,
    identity: Option<String>,
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
    release_on_stop: bool,
}

/// The options of an election are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElectionError {
    /// Another candidate could take the lease before the leader notices its loss.
    #[error(
        "leader election {election}: the lease duration ({lease:?}) must be longer than the renew deadline ({renew:?})"
    )]
    LeaseNotLongerThanRenewal {
        /// The lease, as `namespace/name`.
        election: String,
        /// The duration of the lease.
        lease: Duration,
        /// The deadline for renewals.
        renew: Duration,
    },
    /// The renew deadline leaves time for one attempt only.
    #[error(
        "leader election {election}: the renew deadline ({renew:?}) must be longer than {JITTER} times the retry period ({retry:?})"
    )]
    RenewalNotLongerThanRetries {
        /// The lease, as `namespace/name`.
        election: String,
        /// The deadline for renewals.
        renew: Duration,
        /// The pause between attempts.
        retry: Duration,
    },
    /// The object stores the lease duration in whole seconds, at least one.
    #[error(
        "leader election {election}: the lease duration ({lease:?}) must be at least a second, and the retry period above zero"
    )]
    TooShort {
        /// The lease, as `namespace/name`.
        election: String,
        /// The duration of the lease.
        lease: Duration,
    },
    /// The object stores the lease duration in 32 bits: other candidates would use a shorter one.
    #[error("leader election {election}: the lease duration ({lease:?}) must be no longer than {LONGEST:?}")]
    TooLong {
        /// The lease, as `namespace/name`.
        election: String,
        /// The duration of the lease.
        lease: Duration,
    },
    /// An empty identity, or an empty name of the lease.
    #[error("leader election: {what} must not be empty")]
    Empty {
        /// The empty option.
        what: &'static str,
    },
}

impl LeaderElectionConfig {
    /// An election for a lease. All candidates for the same work must use the same lease.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: None,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            release_on_stop: true,
        }
    }

    /// The identity of this candidate, unique per process. Default: the host's name and a random suffix.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// The time after the last observed renewal at which other candidates take over. Default: 15 s. The object stores
    /// whole seconds; fractions are rounded up.
    ///
    /// When a leader dies, another one leads at the latest after this, 1.4 retry periods and three requests, counted
    /// from the last renewal. A candidate reads the lease every 1.2 retry periods, and takes it up to 0.2 of one after
    /// it expired.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.lease_duration = duration;
        self
    }

    /// The time without a renewal after which the leader stops leading. Default: 10 s.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.renew_deadline = deadline;
        self
    }

    /// The pause between attempts to take or renew the lease. Default: 2 s.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.retry_period = period;
        self
    }

    /// Whether a leader that stops releases the lease, so that the next one need not wait until it expires. Default:
    /// yes.
    pub fn release_on_stop(mut self, release: bool) -> Self {
        self.release_on_stop = release;
        self
    }

    /// The permissions on its lease.
    pub(crate) fn permissions(&self) -> [Permission; 2] {
        election_permissions(&self.name).map(|permission| permission.in_namespace(&self.namespace))
    }

    /// Builds a candidate. Use a separate client for it: other requests on the same connections could delay renewals.
    ///
    /// # Errors
    /// If the options are invalid.
    pub fn build(self, clock: &Clock, kube: kube::Client) -> Result<LeaderElector, ElectionError> {
        self.validate()?;
        Ok(LeaderElector::new(self, kube, clock))
    }

    /// Validates the options without a client.
    ///
    /// # Errors
    /// If the options are invalid.
    pub fn validate(&self) -> Result<(), ElectionError> {
        let election = self.to_string();
        for (what, is_empty) in [
            ("the namespace of the lease", self.namespace.is_empty()),
            ("the name of the lease", self.name.is_empty()),
            ("the identity", self.identity.as_ref().is_some_and(String::is_empty)),
        ] {
            if is_empty {
                return Err(ElectionError::Empty { what });
            }
        }
        let (lease, renew, retry) = (self.lease_duration, self.renew_deadline, self.retry_period);
        if lease < Duration::from_secs(1) || retry.is_zero() {
            return Err(ElectionError::TooShort { election, lease });
        }
        if lease > LONGEST {
            return Err(ElectionError::TooLong { election, lease });
        }
        if lease <= renew {
            return Err(ElectionError::LeaseNotLongerThanRenewal { election, lease, renew });
        }
        // A pause that does not fit into a duration is the maximum.
        let pause = Duration::try_from_secs_f64(retry.as_secs_f64() * JITTER).unwrap_or(Duration::MAX);
        if renew <= pause {
            return Err(ElectionError::RenewalNotLongerThanRetries { election, renew, retry });
        }
        Ok(())
    }
}

/// Prints the lease: `namespace/name`.
impl fmt::Display for LeaderElectionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

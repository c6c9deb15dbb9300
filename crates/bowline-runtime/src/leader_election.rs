//! Leader election on a `Lease`: of several replicas of an operator, one acts.
//!
//! Owns when one leads and when no longer. What starts and stops with it is the manager's.

mod complaint;
mod elector;
mod fence;
mod hooks;
mod leadership;
mod lease;
mod observation;

use std::fmt;
use std::time::Duration;

use bowline_clock::Clock;

pub use elector::{Elector, Expired};
pub(crate) use fence::Fenced;
pub use fence::{Fence, FenceClosed};
pub(crate) use hooks::{Called, Told};
pub use leadership::{Leadership, Lost};

/// How much a pause between two tries may grow, at random, so that candidates do not all come at once.
const JITTER: f64 = 1.2;

/// The longest duration that the object of a lease can hold: a positive `i32` of seconds.
const LONGEST: Duration = Duration::from_secs(i32::MAX.unsigned_abs() as u64);

/// Who stands for election, for what, and how patiently. Made by [`LeaderElection::new`], used by
/// [`build`](LeaderElection::build).
#[derive(Clone, Debug)]
#[must_use = "options do nothing until `build`"]
pub struct LeaderElection {
    namespace: String,
    name: String,
    identity: Option<String>,
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
    release_on_stop: bool,
}

/// Why there can be no election.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElectionError {
    /// Others could take the lease before this one knows that it lost it.
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
    /// One failed try would be the last.
    #[error(
        "leader election {election}: the renew deadline ({renew:?}) must be longer than {JITTER} times the retry period ({retry:?})"
    )]
    RenewalNotLongerThanRetries {
        /// The lease, as `namespace/name`.
        election: String,
        /// The deadline for renewals.
        renew: Duration,
        /// The pause between tries.
        retry: Duration,
    },
    /// A lease's duration is a whole number of seconds in its object, and none of them is zero.
    #[error(
        "leader election {election}: the lease duration ({lease:?}) must be at least a second, and the retry period above zero"
    )]
    TooShort {
        /// The lease, as `namespace/name`.
        election: String,
        /// The duration of the lease.
        lease: Duration,
    },
    /// A lease's duration is 32 bits wide in its object: others would believe in a shorter one.
    #[error("leader election {election}: the lease duration ({lease:?}) must be no longer than {LONGEST:?}")]
    TooLong {
        /// The lease, as `namespace/name`.
        election: String,
        /// The duration of the lease.
        lease: Duration,
    },
    /// Nobody could tell candidates apart, or find the lease.
    #[error("leader election: {what} must not be empty")]
    Empty {
        /// What is empty.
        what: &'static str,
    },
}

impl LeaderElection {
    /// An election for the lease of that name in that namespace. Candidates for the same work must name the same lease.
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

    /// Who this candidate is: different for every process. Default: the host's name and something random.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// How long others wait after the last renewal that they saw before they take over. Default: 15 s. Its object holds
    /// whole seconds; fractions are rounded up there.
    ///
    /// When a leader dies, another one leads no later than this, 1.4 retry periods and three requests after the last renewal:
    /// it looks at the lease each 1.2 retry periods, and comes up to 0.2 of one after its end.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.lease_duration = duration;
        self
    }

    /// How long the leader goes on without a renewal before it gives up. Default: 10 s.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.renew_deadline = deadline;
        self
    }

    /// How long to wait between two tries to take or to renew the lease. Default: 2 s.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.retry_period = period;
        self
    }

    /// Whether the lease is given up when the leader stops, so that the next need not wait until it ends. Default: it is.
    pub fn release_on_stop(mut self, release: bool) -> Self {
        self.release_on_stop = release;
        self
    }

    /// A candidate, through a client that is used for nothing else: what fills another client's connections must not
    /// hold up renewals.
    ///
    /// # Errors
    /// When the options make no sense.
    pub fn build(self, kube: kube::Client, clock: &Clock) -> Result<Elector, ElectionError> {
        self.validate()?;
        Ok(Elector::new(self, kube, clock))
    }

    /// Says whether the options make sense, to who has them before there is a client.
    ///
    /// # Errors
    /// When they make none.
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
        // What does not fit into a duration is longer than any.
        let pause = Duration::try_from_secs_f64(retry.as_secs_f64() * JITTER).unwrap_or(Duration::MAX);
        if renew <= pause {
            return Err(ElectionError::RenewalNotLongerThanRetries { election, renew, retry });
        }
        Ok(())
    }
}

/// As the lease: `namespace/name`.
impl fmt::Display for LeaderElection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

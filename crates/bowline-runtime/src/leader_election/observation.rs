//! The last observed state of the lease, and the next step of a candidate. Pure: time is an argument.
//!
//! Only local time counts. The times in the record are the writer's, and only for people; a candidate measures the age
//! of a record from its own first observation of it.

use std::time::Duration;

use bowline_clock::Instant;
use k8s_openapi::api::coordination::v1::Lease;

/// The lease as last observed, and the time since when it is unchanged.
#[derive(Clone, Debug, Default)]
pub(super) struct Observation {
    lease: Option<Lease>,
    since: Instant,
}

/// The next step of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The lease does not exist: create it.
    Create,
    /// This candidate holds the lease: renew it.
    Renew,
    /// The lease has no holder, or its holder did not renew it: take it.
    Take,
    /// Another candidate holds the lease until then, unless it renews it.
    Wait(Instant),
}

impl Observation {
    /// Stores a lease that was read or written. `now` must not be before the response: the holder may have renewed it
    /// up to then.
    pub(super) fn see(&mut self, lease: Option<Lease>, now: Instant) {
        let is_same = match (&self.lease, &lease) {
            (Some(old), Some(new)) => old.spec == new.spec && old.metadata.uid == new.metadata.uid,
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            self.since = now;
        }
        self.lease = lease;
    }

    /// The lease as last observed.
    pub(super) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// The holder as last observed.
    pub(super) fn holder(&self) -> Option<&str> {
        self.lease.as_ref()?.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }

    /// The time since when the lease is unchanged.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// The next step of `identity`. Another holder's lease lasts for its own duration, but at least for `least`, which
    /// is ours: shortening it by hand does not shorten the time for which its holder believes to lead.
    pub(super) fn step(&self, identity: &str, least: Duration, now: Instant) -> Step {
        let Some(lease) = &self.lease else { return Step::Create };
        match self.holder() {
            None => Step::Take,
            Some(holder) if holder == identity => Step::Renew,
            Some(_) => {
                let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
                let duration = seconds.and_then(|seconds| u64::try_from(seconds).ok());
                let end = self.since + duration.map_or(least, Duration::from_secs).max(least);
                if now < end { Step::Wait(end) } else { Step::Take }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::LeaseSpec;

    use super::*;

    const FIFTEEN: Duration = Duration::from_secs(15);

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn held_by(holder: &str, transitions: i32, seconds: Option<i32>) -> Lease {
        Lease {
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: seconds,
                lease_transitions: Some(transitions),
                ..LeaseSpec::default()
            }),
            ..Lease::default()
        }
    }

    #[test]
    fn a_missing_lease_is_created_and_one_without_a_holder_is_taken() {
        let mut seen = Observation::default();
        assert_eq!(seen.step("me", FIFTEEN, at(0)), Step::Create);
        seen.see(Some(held_by("", 3, Some(1))), at(0));
        assert_eq!(seen.step("me", FIFTEEN, at(0)), Step::Take);
        seen.see(Some(Lease::default()), at(0));
        assert_eq!(seen.step("me", FIFTEEN, at(0)), Step::Take);
    }

    #[test]
    fn another_holders_lease_is_taken_only_after_its_duration_without_a_change() {
        let mut seen = Observation::default();
        seen.see(Some(held_by("other", 0, Some(20))), at(5));
        assert_eq!(seen.step("me", FIFTEEN, at(24)), Step::Wait(at(25)));
        seen.see(Some(held_by("other", 0, Some(20))), at(24));
        assert_eq!(seen.step("me", FIFTEEN, at(25)), Step::Take);
        seen.see(Some(held_by("other", 1, Some(20))), at(25));
        assert_eq!(seen.step("me", FIFTEEN, at(25)), Step::Wait(at(45)));
    }

    #[test]
    fn a_lease_that_is_shorter_than_ours_lasts_as_long_as_ours() {
        let mut seen = Observation::default();
        seen.see(Some(held_by("other", 0, Some(1))), at(0));
        assert_eq!(seen.step("me", FIFTEEN, at(14)), Step::Wait(at(15)));
        assert_eq!(seen.step("me", FIFTEEN, at(15)), Step::Take);
    }

    #[test]
    fn a_lease_without_a_duration_lasts_as_long_as_ours() {
        let mut seen = Observation::default();
        seen.see(Some(held_by("other", 0, None)), at(0));
        assert_eq!(seen.step("me", FIFTEEN, at(14)), Step::Wait(at(15)));
        seen.see(Some(held_by("other", 0, Some(-4))), at(0));
        assert_eq!(seen.step("me", FIFTEEN, at(14)), Step::Wait(at(15)));
    }

    #[test]
    fn our_own_lease_is_renewed_at_any_age() {
        let mut seen = Observation::default();
        seen.see(Some(held_by("me", 0, Some(1))), at(0));
        assert_eq!(seen.step("me", FIFTEEN, at(1000)), Step::Renew);
    }
}

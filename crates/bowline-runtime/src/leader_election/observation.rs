//! What a candidate knows about the lease, and what follows from it. Pure: time is an argument.
//!
//! Only local time counts. When a record was written, by the clock of whoever wrote it, is for people; how long ago this
//! candidate first saw it decides.

use std::time::Duration;

use bowline_clock::Instant;
use k8s_openapi::api::coordination::v1::Lease;

/// The lease as it was last seen, and since when it looks like that.
#[derive(Clone, Debug, Default)]
pub(super) struct Observation {
    lease: Option<Lease>,
    since: Instant,
}

/// What is to be done about the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is none: make it.
    Create,
    /// It is ours: renew it.
    Renew,
    /// It is nobody's, or whoever had it did not renew it: take it.
    Take,
    /// It is somebody else's until then, if it is not renewed.
    Wait(Instant),
}

impl Observation {
    /// The lease was read or written and looks like this. `now` must not be before the answer came: the holder may have
    /// renewed it up to then.
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

    /// The lease, as it was last seen.
    pub(super) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Who has it, as far as is known.
    pub(super) fn holder(&self) -> Option<&str> {
        self.lease.as_ref()?.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }

    /// Since when it looks like that.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// What `identity` is to do now. Somebody else's lease lasts as long as it says, but no shorter than ours, `least`: whoever
    /// shortens it by hand does not thereby shorten the time for which its holder believes to have it.
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
    fn a_lease_that_is_not_there_is_made_and_one_that_is_nobodys_is_taken() {
        let mut seen = Observation::default();
        assert_eq!(seen.step("me", FIFTEEN, at(0)), Step::Create);
        seen.see(Some(held_by("", 3, Some(1))), at(0));
        assert_eq!(seen.step("me", FIFTEEN, at(0)), Step::Take);
        seen.see(Some(Lease::default()), at(0));
        assert_eq!(seen.step("me", FIFTEEN, at(0)), Step::Take);
    }

    #[test]
    fn somebody_elses_lease_is_taken_only_when_it_looked_the_same_for_its_duration() {
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
    fn a_lease_that_does_not_say_how_long_it_lasts_lasts_as_long_as_ours() {
        let mut seen = Observation::default();
        seen.see(Some(held_by("other", 0, None)), at(0));
        assert_eq!(seen.step("me", FIFTEEN, at(14)), Step::Wait(at(15)));
        seen.see(Some(held_by("other", 0, Some(-4))), at(0));
        assert_eq!(seen.step("me", FIFTEEN, at(14)), Step::Wait(at(15)));
    }

    #[test]
    fn our_own_lease_is_renewed_however_old_it_is() {
        let mut seen = Observation::default();
        seen.see(Some(held_by("me", 0, Some(1))), at(0));
        assert_eq!(seen.step("me", FIFTEEN, at(1000)), Step::Renew);
    }
}

//! Validation of durations; none of them panics.

use std::time::Duration;

use bowline_clock::Simulation;
use bowline_runtime::leader_election::{ElectionError, LeaderElectionConfig};

use crate::{SECOND, candidate, take_calls, world};

const LONGEST: Duration = Duration::from_secs((1 << 31) - 1);

fn election(lease: Duration, renew: Duration, retry: Duration) -> LeaderElectionConfig {
    LeaderElectionConfig::new("default", "operator")
        .identity("b")
        .lease_duration(lease)
        .renew_deadline(renew)
        .retry_period(retry)
}

#[test]
fn invalid_durations_are_refused_by_name() {
    Simulation::new(11).run(|clock| async move {
        let (_, client) = world(&clock);
        let build = |lease: u32, renew: u32, retry: u32| {
            LeaderElectionConfig::new("default", "operator")
                .lease_duration(SECOND / 10 * lease)
                .renew_deadline(SECOND / 10 * renew)
                .retry_period(SECOND / 10 * retry)
                .build(&clock, client.clone())
                .map(|_| ())
        };
        let tenths = |tenths: u32| SECOND / 10 * tenths;
        assert_eq!(build(20, 12, 3), Ok(()));
        assert_eq!(
            build(100, 100, 20).unwrap_err(),
            ElectionError::LeaseNotLongerThanRenewal {
                election: "default/operator".to_owned(),
                lease: tenths(100),
                renew: tenths(100)
            }
        );
        assert_eq!(
            build(150, 24, 20).unwrap_err().to_string(),
            "leader election default/operator: the renew deadline (2.4s) must be longer than 1.2 times the retry period (2s)"
        );
        assert!(matches!(build(9, 5, 2), Err(ElectionError::TooShort { .. })));
        assert!(matches!(build(20, 12, 0), Err(ElectionError::TooShort { .. })));
        let nameless = LeaderElectionConfig::new("default", "").build(&clock, client.clone()).map(|_| ());
        assert_eq!(nameless.unwrap_err().to_string(), "leader election: the name of the lease must not be empty");
    });
}

#[test]
fn no_duration_panics_and_zero_and_infinite_ones_are_refused() {
    let nanosecond = Duration::from_nanos(1);
    let durations = [
        Duration::ZERO,
        nanosecond,
        SECOND,
        2 * SECOND,
        LONGEST,
        Duration::MAX.saturating_sub(nanosecond),
        Duration::MAX,
    ];
    let mut accepted = Vec::new();
    for lease in durations {
        for renew in durations {
            for retry in durations {
                if election(lease, renew, retry).validate().is_ok() {
                    accepted.push((lease, renew, retry));
                }
            }
        }
    }
    assert_eq!(
        accepted,
        [
            (2 * SECOND, SECOND, nanosecond),
            (LONGEST, SECOND, nanosecond),
            (LONGEST, 2 * SECOND, nanosecond),
            (LONGEST, 2 * SECOND, SECOND),
        ]
    );
    let too_long = election(LONGEST + nanosecond, 2 * SECOND, SECOND).validate().unwrap_err();
    assert_eq!(
        too_long.to_string(),
        "leader election default/operator: the lease duration (2147483647.000000001s) must be no longer than 2147483647s"
    );
}

#[test]
fn the_longest_durations_work() {
    Simulation::new(50).run(|clock| async move {
        let (_, client) = world(&clock);
        let election = election(LONGEST, LONGEST.saturating_sub(SECOND), LONGEST / 2);
        let elector = election.build(&clock, client.clone()).unwrap();
        let leadership = elector.acquire().await;
        assert!(clock.timeout(LONGEST * 2, leadership.renew_until_lost()).await.is_err(), "it is renewed");
        assert!(elector.fence().is_open());
    });
}

#[test]
fn a_retry_period_below_the_minimum_pause_is_used() {
    Simulation::new(51).run(|clock| async move {
        let (faults, client) = world(&clock);
        let first = candidate(&client, &clock, "a");
        let election = election(15 * SECOND, SECOND, Duration::from_millis(5));
        let second = election.build(&clock, client.clone()).unwrap();
        let _leadership = first.acquire().await;
        let _before = take_calls(&faults);
        assert!(clock.timeout(SECOND, second.acquire()).await.is_err());
        let looks = take_calls(&faults).len();
        assert!((140..=201).contains(&looks), "{looks} in a second");
    });
}

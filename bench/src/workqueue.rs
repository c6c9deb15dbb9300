//! The `workqueue` scenario: workloads, subjects and targets.

pub(crate) mod subject;

use std::collections::BTreeSet;
use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;

use crate::arguments::{Peer, WorkqueueArguments, typed};
use crate::go;
use crate::metric::{CPU_S, RSS_PEAK_MIB, RSS_SETTLED_MIB};
use crate::report::{Metric, Target, row};
use crate::scenario::{self, Scenario};
use crate::subject::{OURS, Subject, Work};

const SCENARIO: &str = "workqueue";
const PEERS: &[Peer] = &[Peer::Go];

const CLIENT_GO: &str = go::CLIENT_GO.name;
const CONTROLLER_RUNTIME: &str = go::CONTROLLER_RUNTIME.name;

/// The slowest run takes some seconds.
const LIMIT: Duration = Duration::from_secs(180);

const KEYS_PER_S: Metric = Metric { name: "keys_per_s", unit: "keys/s" };

/// Number of distinct keys of [`Workload::Duplicates`]. The Go harness uses the same.
const DUPLICATE_KEYS: usize = 10_000;

/// Keys per call in the `…-frames` workloads: a page of a list, the largest burst of an informer. The Go harness uses
/// the same.
const FRAME: usize = 500;

/// Tasks of a run on the queue. The Go programs use the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Workload {
    /// One task adds a key, gets it and finishes it, again and again
    PingPong,
    /// Adders and workers at once, every key added once
    Distinct,
    /// Adders and workers at once, 10,000 keys added repeatedly
    Duplicates,
    /// As `distinct`, through the per-item exponential rate limiter
    RateLimited,
    /// As `distinct`, 500 keys added at a time
    DistinctFrames,
    /// As `duplicates`, 500 keys added at a time
    DuplicatesFrames,
    /// As `rate-limited`, 500 keys added at a time
    RateLimitedFrames,
    /// Memory of a queue without workers
    Waiting,
}

/// Runs the scenario and prints its results, see [`scenario::run`].
pub(crate) fn run(arguments: &WorkqueueArguments) -> ExitCode {
    let work = arguments.workloads().into_iter().map(|workload| workload.work(arguments.n)).collect();
    scenario::run(Scenario { name: SCENARIO, peers: PEERS }, &arguments.common, subjects, work)
}

/// Ours, and those of the peers.
fn subjects(peers: &BTreeSet<Peer>) -> Result<Vec<Subject>, Box<dyn Error>> {
    let mut subjects = vec![Subject {
        name: OURS,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        program: env::current_exe()?,
        arguments: vec!["workqueue-subject".to_owned()],
    }];
    if peers.contains(&Peer::Go) {
        let programs = go::build()?;
        let libraries = [go::CLIENT_GO, go::CONTROLLER_RUNTIME];
        subjects.extend(libraries.map(|library| library.subject(&programs, library.name, &[])));
    }
    Ok(subjects)
}

impl Workload {
    fn work(self, n: usize) -> Work {
        // Go's `flag` accepts two dashes as well.
        let arguments = ["--workload".to_owned(), typed(&self), "--n".to_owned(), n.to_string()];
        let row = |metric: &Metric| {
            let peers = [CLIENT_GO, CONTROLLER_RUNTIME].into_iter();
            let targets: Vec<_> =
                peers.filter_map(|peer| Some((peer, self.target(*metric, peer)?))).collect();
            row(&self.variant(n), *metric, &targets)
        };
        let rows = self.metrics().iter().map(row).collect();
        Work { name: self.variant(n), arguments: arguments.into(), rows, limit: LIMIT, most_pairs: None }
    }

    fn variant(self, n: usize) -> String {
        match self {
            Self::PingPong => "ping-pong".to_owned(),
            Self::Distinct => format!("concurrent distinct n={n}"),
            Self::Duplicates => format!("concurrent duplicates n={n} keys={DUPLICATE_KEYS}"),
            Self::RateLimited => format!("rate-limited n={n}"),
            Self::DistinctFrames => format!("{} frames={FRAME}", Self::Distinct.variant(n)),
            Self::DuplicatesFrames => format!("{} frames={FRAME}", Self::Duplicates.variant(n)),
            Self::RateLimitedFrames => format!("{} frames={FRAME}", Self::RateLimited.variant(n)),
            Self::Waiting => format!("waiting n={n}"),
        }
    }

    fn metrics(self) -> &'static [Metric] {
        match self {
            Self::Waiting => &[RSS_SETTLED_MIB, RSS_PEAK_MIB],
            _ => &[KEYS_PER_S, CPU_S],
        }
    }

    fn target(self, metric: Metric, peer: &str) -> Option<Target> {
        // The targets are for the same calls on every queue; not every queue takes frames.
        if matches!(self, Self::DistinctFrames | Self::DuplicatesFrames | Self::RateLimitedFrames) {
            return None;
        }
        if metric == KEYS_PER_S && peer == CLIENT_GO {
            // Distinct keys are bound by cache misses, which are the same for all.
            return Some(Target::AtLeast(if self == Self::Distinct { 1.5 } else { 2.5 }));
        }
        if metric == KEYS_PER_S && peer == CONTROLLER_RUNTIME {
            return Some(Target::AtLeast(3.0));
        }
        (metric == RSS_SETTLED_MIB && peer == CLIENT_GO).then_some(Target::AtMost(0.6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_keys_have_the_lower_target_and_cpu_has_none() {
        assert_eq!(Workload::Distinct.target(KEYS_PER_S, CLIENT_GO), Some(Target::AtLeast(1.5)));
        assert_eq!(Workload::PingPong.target(KEYS_PER_S, CLIENT_GO), Some(Target::AtLeast(2.5)));
        assert_eq!(Workload::Distinct.target(KEYS_PER_S, CONTROLLER_RUNTIME), Some(Target::AtLeast(3.0)));
        assert_eq!(Workload::Distinct.target(CPU_S, CLIENT_GO), None);
    }

    #[test]
    fn frames_have_no_target_because_client_go_has_no_frames() {
        assert_eq!(Workload::DuplicatesFrames.target(KEYS_PER_S, CLIENT_GO), None);
        assert_eq!(Workload::RateLimitedFrames.target(KEYS_PER_S, CONTROLLER_RUNTIME), None);
    }

    #[test]
    fn settled_memory_has_a_target_against_client_go_alone() {
        assert_eq!(Workload::Waiting.target(RSS_SETTLED_MIB, CLIENT_GO), Some(Target::AtMost(0.6)));
        assert_eq!(Workload::Waiting.target(RSS_SETTLED_MIB, CONTROLLER_RUNTIME), None);
        assert_eq!(Workload::Waiting.target(RSS_PEAK_MIB, CLIENT_GO), None);
    }

    #[test]
    fn variants_tell_sizes_apart() {
        let variants: Vec<_> = Workload::value_variants().iter().map(|w| w.variant(50)).collect();
        assert_eq!(
            variants,
            [
                "ping-pong",
                "concurrent distinct n=50",
                "concurrent duplicates n=50 keys=10000",
                "rate-limited n=50",
                "concurrent distinct n=50 frames=500",
                "concurrent duplicates n=50 keys=10000 frames=500",
                "rate-limited n=50 frames=500",
                "waiting n=50"
            ]
        );
    }
}

//! The scenarios for reconcilers: metrics, subjects and targets.

mod bowline;
mod kube_rs;
mod latency;
pub(crate) mod subject;
mod throughput;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;

use crate::arguments::{Common, Peer, typed};
use crate::companion::Companion;
use crate::maker::Maker;
use crate::report::Row;
use crate::sink::Logger;
use crate::subject::Work;
use crate::{go, scenario};

/// Arguments that make this program a subject.
const SUBJECT: &str = "reconcile-subject";

const PEERS: &[Peer] = &[Peer::Go, Peer::KubeRs];

/// The slowest run takes some ten seconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(180);

/// A scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    Throughput,
    Latency,
}

/// Tasks of a run. The Go program uses the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Task {
    /// Number of reconciles of each object
    Throughput,
    /// Reconcile changed objects
    Latency,
}

/// Runs a scenario and prints its results, see [`scenario::run`].
pub(crate) fn run(what: Scenario, common: &Common, n: usize, logger: Logger) -> ExitCode {
    let scenario = scenario::Scenario { name: what.name(), peers: PEERS };
    // Kept until all have run.
    let mut companion = None;
    let subjects = |peers: &BTreeSet<Peer>| {
        let programs = peers.contains(&Peer::Go).then(go::build).transpose()?;
        let started = companion.insert(Companion::replay(what.objects(n))?);
        let endpoint = ["--endpoint".to_owned(), started.file().display().to_string()];
        let in_rust = [&endpoint[..], &["--logger".to_owned(), typed(&logger)]].concat();
        let mut subjects = vec![Maker::Bowline.subject(SUBJECT, &in_rust)?];
        if let Some(programs) = programs {
            subjects.push(go::CONTROLLER_RUNTIME.subject(
                &programs,
                "controller-runtime-reconcile",
                &endpoint,
            ));
        }
        if peers.contains(&Peer::KubeRs) {
            subjects.push(Maker::KubeRs.subject(SUBJECT, &in_rust)?);
        }
        Ok(subjects)
    };
    scenario::run(scenario, common, subjects, what.work(n))
}

impl Scenario {
    /// Name in the results and on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::Throughput => "reconcile-throughput",
            Self::Latency => "reconcile-latency",
        }
    }

    /// Number of objects on the server.
    fn objects(self, n: usize) -> usize {
        match self {
            Self::Throughput => n / throughput::ROUNDS,
            Self::Latency => n,
        }
    }

    fn work(self, n: usize) -> Vec<Work> {
        match self {
            Self::Throughput => throughput::work(n),
            Self::Latency => latency::work(n),
        }
    }
}

/// One workload: a task with more arguments.
fn work(variant: &str, task: Task, arguments: &[(&str, usize)], rows: Vec<Row>) -> Work {
    Work::of_task(variant, &task, arguments, rows, LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIOS: [Scenario; 2] = [Scenario::Throughput, Scenario::Latency];

    #[test]
    fn no_two_rows_of_a_workload_have_the_same_key() {
        for work in SCENARIOS.iter().flat_map(|scenario| scenario.work(1_000)) {
            let keys: BTreeSet<_> = work.rows.iter().map(|row| &row.key).collect();
            assert_eq!(keys.len(), work.rows.len(), "{}", work.name);
        }
    }

    #[test]
    fn variants_and_targets_are_the_agreed_ones() {
        let mut targets = BTreeSet::new();
        for row in SCENARIOS.iter().flat_map(|scenario| scenario.work(1_000)).flat_map(|work| work.rows) {
            for (peer, target) in &row.targets {
                targets.insert(format!("{}: {} {target} {peer}", row.variant, row.metric.name));
            }
        }
        let mut expected = BTreeSet::new();
        for workers in [1, 8] {
            expected.extend([
                format!("workers={workers} n=1000: reconciles_per_s ≥ 3× controller-runtime"),
                format!("workers={workers} n=1000: reconciles_per_s ≥ 5× kube-rs"),
            ]);
        }
        for mode in ["idle rate=200", "busy rate=2000"] {
            for percentile in ["p50", "p90"] {
                for peer in ["controller-runtime", "kube-rs"] {
                    expected.insert(format!("{mode} {percentile} n=1000: latency_ms ≤ 0.7× {peer}"));
                }
            }
        }
        assert_eq!(targets, expected);
    }
}

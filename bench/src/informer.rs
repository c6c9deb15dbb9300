//! The scenarios for informers: metrics, subjects and targets.

mod bowline;
mod events;
pub(crate) mod fill;
mod kube_rs;
mod object;
mod read;
pub(crate) mod subject;
mod sync;

use std::collections::BTreeSet;
use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;

use crate::apiserver::program;
use crate::arguments::{Common, Peer};
use crate::companion::Companion;
use crate::go::{self, Library};
use crate::maker::Maker;
use crate::report::{Metric, Row};
use crate::subject::Work;
use crate::{replay, scenario};

/// Arguments that make this program a subject.
const SUBJECT: &str = "informer-subject";

const PEERS: &[Peer] = &[Peer::Go, Peer::KubeRs];
/// The slowest run takes some ten seconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(180);

/// Interval between two samples of a subject's memory.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

const EVENTS_PER_S: Metric = Metric { name: "events_per_s", unit: "events/s" };
const READS_PER_S: Metric = Metric { name: "reads_per_s", unit: "reads/s" };
const CALLBACKS: Metric = Metric { name: "callbacks", unit: "callbacks" };
const LIVE_BYTES_PER_OBJECT: Metric = Metric { name: "live_bytes_per_object", unit: "B" };

/// A scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    Sync,
    Events,
    CacheRead,
}

/// Tasks of a run. The Go programs use the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Task {
    /// Start an informer and wait for its sync
    Sync,
    /// Deliver updates to three handlers
    Events,
    /// Read objects by their keys, during updates
    Get,
    /// List objects of one group, during updates
    Index,
}

/// Synced kinds. The Go programs use the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Resource {
    Pods,
    #[value(name = "configmaps")]
    ConfigMaps,
}

/// Runs a scenario and prints its results, see [`scenario::run`].
pub(crate) fn run(what: Scenario, common: &Common, n: usize) -> ExitCode {
    let scenario = scenario::Scenario { name: what.name(), peers: PEERS };
    // Kept until all have run.
    let mut companion = None;
    let subjects = |peers: &BTreeSet<Peer>| {
        // A build failure is reported before a server is filled.
        let programs = peers.contains(&Peer::Go).then(go::build).transpose()?;
        let counting = (what == Scenario::Sync).then(program::counting).transpose()?;
        let started = match what {
            Scenario::Sync => Companion::filled(&program::real()?.directory, n)?,
            Scenario::Events | Scenario::CacheRead => Companion::replay(n)?,
        };
        let started = companion.insert(started);
        let endpoint = vec!["--endpoint".to_owned(), started.file().display().to_string()];
        let mut arguments = endpoint.clone();
        if let Some(counting) = &counting {
            arguments.extend(["--counting-program".to_owned(), counting.display().to_string()]);
        }
        let mut subjects = vec![Maker::Bowline.subject(SUBJECT, &arguments)?];
        if let Some(programs) = programs {
            let (library, program) = what.go_peer();
            subjects.push(library.subject(&programs, program, &endpoint));
        }
        if peers.contains(&Peer::KubeRs) {
            subjects.push(Maker::KubeRs.subject(SUBJECT, &arguments)?);
        }
        Ok(subjects)
    };
    scenario::run(scenario, common, subjects, what.work(n))
}

impl Scenario {
    /// Name in the results and on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::Sync => "informer-sync",
            Self::Events => "informer-events",
            Self::CacheRead => "cache-read",
        }
    }

    /// The Go library of this scenario's peer, and its program.
    fn go_peer(self) -> (Library, &'static str) {
        match self {
            Self::Sync | Self::Events => (go::CLIENT_GO, "client-go-informer"),
            Self::CacheRead => (go::CONTROLLER_RUNTIME, "controller-runtime-cache"),
        }
    }

    fn work(self, n: usize) -> Vec<Work> {
        match self {
            Self::Sync => sync::work(n),
            Self::Events => vec![events::work(n, n * replay::ROUNDS)],
            Self::CacheRead => read::work(n),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pods => "pods",
            Self::ConfigMaps => "configmaps",
        })
    }
}

/// One workload: a task with more arguments.
fn work(variant: &str, task: Task, arguments: &[(&str, usize)], rows: Vec<Row>) -> Work {
    Work::of_task(variant, &task, arguments, rows, LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIOS: [Scenario; 3] = [Scenario::Sync, Scenario::Events, Scenario::CacheRead];

    #[test]
    fn a_resource_is_displayed_as_it_is_typed() {
        for resource in Resource::value_variants() {
            assert_eq!(resource.to_string(), resource.to_possible_value().unwrap().get_name());
        }
    }

    #[test]
    fn no_two_rows_of_a_workload_have_the_same_key() {
        for work in SCENARIOS.iter().flat_map(|scenario| scenario.work(700)) {
            let keys: BTreeSet<_> = work.rows.iter().map(|row| &row.key).collect();
            assert_eq!(keys.len(), work.rows.len(), "{}", work.name);
        }
    }

    #[test]
    fn what_a_row_of_ours_is_held_against_is_there() {
        for work in SCENARIOS.iter().flat_map(|scenario| scenario.work(700)) {
            for own in work.rows.iter().filter_map(|row| row.own.as_ref()) {
                assert!(work.rows.iter().any(|other| other.key == *own), "{own}");
            }
        }
    }

    #[test]
    fn variants_and_targets_are_the_agreed_ones() {
        let works = SCENARIOS.iter().flat_map(|scenario| scenario.work(700));
        let mut targets = BTreeSet::new();
        for row in works.flat_map(|work| work.rows) {
            for (peer, target) in &row.targets {
                targets.insert(format!("{}: {} {target} {peer}", row.variant, row.metric.name));
            }
        }
        let mut expected = BTreeSet::from(
            [
                "updates=7000 handlers=3 n=700: events_per_s ≥ 2× client-go",
                "updates=7000 handlers=3 n=700: events_per_s ≥ 2× kube-rs",
                "get readers=2 n=700: reads_per_s ≥ 10× controller-runtime",
                "get readers=2 n=700: reads_per_s ≥ 1× kube-rs",
                "index of=100 readers=2 n=700: reads_per_s ≥ 10× controller-runtime",
                "index of=100 readers=2 n=700: reads_per_s ≥ 50× kube-rs",
            ]
            .map(str::to_owned),
        );
        for resource in ["pods", "configmaps"] {
            expected.extend([
                format!("{resource} n=700: cpu_s ≤ 0.5× client-go"),
                format!("{resource} n=700: cpu_s ≤ 0.5× kube-rs"),
                format!("{resource} n=700: rss_peak_mib ≤ 1.15× bowline"),
                format!("{resource} relist n=700: cpu_s ≤ 0.3× bowline"),
                format!("{resource} stripped n=700: rss_peak_mib ≤ 1.15× bowline"),
                format!("{resource} stripped n=700: live_bytes_per_object ≤ 1× kube-rs"),
            ]);
        }
        assert_eq!(targets, expected);
    }
}

//! The scenarios about informers: what they measure, on whom, and how ours should compare.

mod bowline;
mod events;
pub(crate) mod fill;
mod kube_rs;
mod object;
mod read;
pub(crate) mod subject;
mod sync;

use std::collections::BTreeSet;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fmt};

use clap::ValueEnum;

use crate::apiserver::program;
use crate::arguments::{Common, Peer};
use crate::companion::Companion;
use crate::report::{Compared, Metric, Row, Target};
use crate::scenario;
use crate::subject::{OURS, Subject, Work};
use crate::{go, replay};

const PEERS: &[Peer] = &[Peer::Go, Peer::KubeRs];
const CLIENT_GO: &str = "client-go";
const CONTROLLER_RUNTIME: &str = "controller-runtime";
const KUBE_RS: &str = "kube-rs";

/// The version of kube-rs that is in the lock file; a test looks.
const KUBE_RS_VERSION: &str = "5.0.0";

/// The slowest takes some ten seconds when nothing else runs.
const LIMIT: Duration = Duration::from_secs(180);

/// How long to wait between two looks at the memory of a subject.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

const EVENTS_PER_S: Metric = Metric { name: "events_per_s", unit: "events/s" };
const READS_PER_S: Metric = Metric { name: "reads_per_s", unit: "reads/s" };
const CALLBACKS: Metric = Metric { name: "callbacks", unit: "callbacks" };
const CPU_S: Metric = Metric { name: "cpu_s", unit: "s" };
const WALL_S: Metric = Metric { name: "wall_s", unit: "s" };
const RSS_SETTLED_MIB: Metric = Metric { name: "rss_settled_mib", unit: "MiB" };
const RSS_PEAK_MIB: Metric = Metric { name: "rss_peak_mib", unit: "MiB" };
const LIVE_BYTES_PER_OBJECT: Metric = Metric { name: "live_bytes_per_object", unit: "B" };

/// Which of the scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    Sync,
    Events,
    CacheRead,
}

/// Whose informer it is, of those that are in this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Maker {
    Bowline,
    KubeRs,
}

/// What is done in one run. The Go programs know them by the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Task {
    /// Start an informer and wait until it has everything
    Sync,
    /// Have three handlers see updates
    Events,
    /// Read objects by their keys, during updates
    Get,
    /// List objects of one group, during updates
    Index,
}

/// What there is to sync. The Go programs know them by the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Resource {
    Pods,
    #[value(name = "configmaps")]
    ConfigMaps,
}

/// Runs a scenario and prints its results, see [`scenario::run`].
pub(crate) fn run(what: Scenario, common: &Common, n: usize) -> ExitCode {
    let scenario = scenario::Scenario { name: what.name(), peers: PEERS };
    // It is there until all have run.
    let mut companion = None;
    let subjects = |peers: &BTreeSet<Peer>| {
        // What cannot be built is told before a server is filled.
        let programs = peers.contains(&Peer::Go).then(go::build).transpose()?;
        let counting = (what == Scenario::Sync).then(program::counting).transpose()?;
        let started = match what {
            Scenario::Sync => Companion::filled(&program::real()?.directory, n)?,
            Scenario::Events | Scenario::CacheRead => Companion::replay(n)?,
        };
        let started = companion.insert(started);
        let endpoint = ["--endpoint".to_owned(), started.file().display().to_string()];
        let in_this_program = |maker: Maker, version: &str| -> Result<Subject, Box<dyn Error>> {
            let mut arguments = vec!["informer-subject".to_owned(), "--maker".to_owned(), maker.to_string()];
            arguments.extend(endpoint.clone());
            if let Some(counting) = &counting {
                arguments.extend(["--counting-program".to_owned(), counting.display().to_string()]);
            }
            Ok(Subject {
                name: maker.name(),
                version: version.to_owned(),
                program: env::current_exe()?,
                arguments,
            })
        };
        let mut subjects = vec![in_this_program(Maker::Bowline, env!("CARGO_PKG_VERSION"))?];
        if let Some(programs) = programs {
            let (name, module, program) = what.go_peer();
            subjects.push(Subject {
                name,
                version: go::module_version(module).unwrap_or("of unknown version").to_owned(),
                program: programs.join(program),
                arguments: endpoint.to_vec(),
            });
        }
        if peers.contains(&Peer::KubeRs) {
            subjects.push(in_this_program(Maker::KubeRs, KUBE_RS_VERSION)?);
        }
        Ok(subjects)
    };
    scenario::run(scenario, common, subjects, what.work(n))
}

impl Scenario {
    /// What it is called in the results, and on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::Sync => "informer-sync",
            Self::Events => "informer-events",
            Self::CacheRead => "cache-read",
        }
    }

    /// The subject of this scenario that is written in Go, its module, and its program.
    fn go_peer(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Sync | Self::Events => (CLIENT_GO, "k8s.io/client-go", "client-go-informer"),
            Self::CacheRead => {
                (CONTROLLER_RUNTIME, "sigs.k8s.io/controller-runtime", "controller-runtime-cache")
            }
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

impl Maker {
    /// What its subject is called.
    fn name(self) -> &'static str {
        match self {
            Self::Bowline => OURS,
            Self::KubeRs => KUBE_RS,
        }
    }
}

impl fmt::Display for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sync => "sync",
            Self::Events => "events",
            Self::Get => "get",
            Self::Index => "index",
        })
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
    // Go's `flag` takes two dashes as well.
    let mut all = vec!["--task".to_owned(), task.to_string()];
    for (name, value) in arguments {
        all.extend([format!("--{name}"), value.to_string()]);
    }
    Work { name: variant.to_owned(), arguments: all, rows, limit: LIMIT }
}

/// A row that every subject has.
fn row(variant: &str, metric: Metric, targets: &[(&'static str, Target)]) -> Row {
    Row {
        variant: variant.to_owned(),
        metric,
        key: metric.name.to_owned(),
        compared: Compared::Same,
        own: None,
        targets: targets.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIOS: [Scenario; 3] = [Scenario::Sync, Scenario::Events, Scenario::CacheRead];

    #[test]
    fn names_are_displayed_as_they_are_typed() {
        for maker in Maker::value_variants() {
            assert_eq!(maker.to_string(), maker.to_possible_value().unwrap().get_name());
        }
        for task in Task::value_variants() {
            assert_eq!(task.to_string(), task.to_possible_value().unwrap().get_name());
        }
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

    #[test]
    fn the_version_of_kube_rs_is_the_one_that_is_locked() {
        let lock = include_str!("../../Cargo.lock");
        let entry = format!("name = \"kube\"\nversion = \"{KUBE_RS_VERSION}\"\n");
        assert!(lock.contains(&entry));
    }
}

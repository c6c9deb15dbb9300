//! The scenarios for API servers: metrics, subjects and targets.

mod bare;
pub(crate) mod client;
mod list;
pub(crate) mod load;
pub(crate) mod object;
pub(crate) mod program;
pub(crate) mod server;
mod start;
pub(crate) mod subject;
mod watch;
mod watched;
mod write;

use std::collections::BTreeSet;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fmt};

use clap::ValueEnum;

use crate::arguments::{Common, Peer};
use crate::report::{self, Compared, Metric, Row, Target};
use crate::scenario;
use crate::subject::{OURS, Subject, Work};

const PEERS: &[Peer] = &[Peer::KubeApiserver];
const KUBE_APISERVER: &str = "kube-apiserver";

/// The longest run fills kube-apiserver with 40,000 objects, which takes a minute on an idle machine.
const LIMIT: Duration = Duration::from_secs(600);

const READY_MS: Metric = Metric { name: "ready_ms", unit: "ms" };
const EVENT_MS: Metric = Metric { name: "event_ms", unit: "ms" };
const CPU_US_PER_REQUEST: Metric = Metric { name: "cpu_us_per_request", unit: "µs" };
const REQUESTS_PER_S: Metric = Metric { name: "requests_per_s", unit: "requests/s" };
const RSS_IDLE_MIB: Metric = Metric { name: "rss_idle_mib", unit: "MiB" };

/// Work of one run on an API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    Start,
    Write,
    List,
    Watch,
}

/// The API server of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Maker {
    Bowline,
    KubeApiserver,
}

/// Runs a scenario and prints its results, see [`scenario::run`]. Default of `n`: the scenario's usual size.
pub(crate) fn run(what: Scenario, common: &Common, n: Option<usize>) -> ExitCode {
    let n = n.unwrap_or(what.usual_n());
    let scenario = scenario::Scenario { name: what.name(), peers: PEERS };
    let work = Work {
        name: what.name().to_owned(),
        arguments: vec!["--n".to_owned(), n.to_string()],
        rows: what.rows(n),
        limit: LIMIT,
        most_pairs: None,
    };
    scenario::run(scenario, common, |peers| subjects(what, peers), vec![work])
}

/// Ours, and kube-apiserver if requested. Each is this program, which starts the server in another process.
fn subjects(what: Scenario, peers: &BTreeSet<Peer>) -> Result<Vec<Subject>, Box<dyn Error>> {
    let program = env::current_exe()?;
    let arguments = |maker: Maker| {
        ["apiserver-load", "--scenario", what.short_name(), "--maker", maker.name()]
            .map(str::to_owned)
            .to_vec()
    };
    let mut ours = arguments(Maker::Bowline);
    if what == Scenario::Start {
        ours.extend(["--dev-program".to_owned(), program::dev()?.display().to_string()]);
    }
    let mut subjects = vec![Subject {
        name: OURS,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        program: program.clone(),
        arguments: ours,
    }];
    if peers.contains(&Peer::KubeApiserver) {
        let programs = program::real()?;
        let mut theirs = arguments(Maker::KubeApiserver);
        theirs.extend(["--programs".to_owned(), programs.directory.display().to_string()]);
        subjects.push(Subject {
            name: KUBE_APISERVER,
            version: programs.versions,
            program,
            arguments: theirs,
        });
    }
    Ok(subjects)
}

impl Scenario {
    /// Name in the results and on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::Start => "apiserver-start",
            Self::Write => "apiserver-write",
            Self::List => "apiserver-list",
            Self::Watch => "apiserver-watch",
        }
    }

    fn short_name(self) -> &'static str {
        self.name().trim_start_matches("apiserver-")
    }

    /// Minimum number of objects or requests for a result that counts.
    fn usual_n(self) -> usize {
        match self {
            Self::Start => 1,
            Self::Write => 10_000,
            Self::List => 20_000,
            Self::Watch => 1_000,
        }
    }

    fn rows(self, n: usize) -> Vec<Row> {
        match self {
            Self::Start => start::rows(),
            Self::Write => write::rows(n),
            Self::List => list::rows(n),
            Self::Watch => watch::rows(n),
        }
    }
}

impl Maker {
    fn name(self) -> &'static str {
        match self {
            Self::Bowline => OURS,
            Self::KubeApiserver => KUBE_APISERVER,
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short_name())
    }
}

/// Key of a variant's metric in a run's output.
fn key(variant: &str, metric: Metric) -> String {
    format!("{variant}: {}", metric.name)
}

/// A row of every API server. A target is an upper bound: less is better for all metrics with targets.
fn row(variant: &str, metric: Metric, at_most: Option<f64>) -> Row {
    let targets: Vec<_> = at_most.map(|bound| (KUBE_APISERVER, Target::AtMost(bound))).into_iter().collect();
    Row { key: key(variant, metric), ..report::row(variant, metric, &targets) }
}

/// A row of ours only, compared with another variant of the peer's.
fn row_against(variant: &str, against: &str, metric: Metric, at_most: Option<f64>) -> Row {
    Row { compared: Compared::With(against.to_owned()), ..row(variant, metric, at_most) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_displayed_as_they_are_typed() {
        for scenario in Scenario::value_variants() {
            assert_eq!(scenario.to_string(), scenario.to_possible_value().unwrap().get_name());
        }
        for maker in Maker::value_variants() {
            assert_eq!(maker.name(), maker.to_possible_value().unwrap().get_name());
        }
    }

    #[test]
    fn no_two_rows_have_the_same_key() {
        for scenario in Scenario::value_variants() {
            let rows = scenario.rows(7);
            let keys: BTreeSet<_> = rows.iter().map(|row| &row.key).collect();
            assert_eq!(keys.len(), rows.len(), "{scenario}");
        }
    }

    #[test]
    fn what_a_row_is_held_against_is_a_row_that_peers_have() {
        for row in Scenario::value_variants().iter().flat_map(|scenario| scenario.rows(7)) {
            let Compared::With(against) = &row.compared else { continue };
            let rows = Scenario::value_variants().iter().flat_map(|scenario| scenario.rows(7));
            let mut others = rows.filter(|other| other.compared == Compared::Same);
            assert!(others.any(|other| other.variant == *against && other.metric == row.metric), "{row:?}");
        }
    }

    #[test]
    fn variants_and_targets_are_the_agreed_ones() {
        let target = |row: &Row| match row.targets.as_slice() {
            [] => None,
            [(KUBE_APISERVER, Target::AtMost(bound))] => Some(*bound),
            other => panic!("{other:?}"),
        };
        let rows = Scenario::value_variants().iter().flat_map(|scenario| scenario.rows(7));
        let with_targets: Vec<_> = rows.filter_map(|row| Some((row.key.clone(), target(&row)?))).collect();
        let expected = [
            ("socket: ready_ms", 0.03),
            ("socket: rss_idle_mib", 0.12),
            ("in-process: ready_ms", 0.005),
            ("in-process dev: ready_ms", 0.005),
            ("create connections=16 n=7: cpu_us_per_request", 0.125),
            ("update connections=16 n=7: cpu_us_per_request", 0.125),
            ("get connections=16 n=7: cpu_us_per_request", 0.125),
            ("create connections=64 n=7: cpu_us_per_request", 0.125),
            ("update connections=64 n=7: cpu_us_per_request", 0.125),
            ("get connections=64 n=7: cpu_us_per_request", 0.125),
            ("both n=7: rss_settled_mib", 0.2),
            ("configmaps whole n=7: cpu_s", 0.33),
            ("configmaps paged n=7: cpu_s", 0.33),
            ("pods whole n=7: cpu_s", 0.33),
            ("pods paged n=7: cpu_s", 0.33),
            ("watchers=1 p50 n=7: event_ms", 0.25),
            ("watchers=1 p90 n=7: event_ms", 0.25),
            ("watchers=100 p50 n=7: event_ms", 0.25),
            ("watchers=100 p90 n=7: event_ms", 0.25),
            ("watchers=100 http2 p50 n=7: event_ms", 0.25),
            ("watchers=100 http2 p90 n=7: event_ms", 0.25),
        ];
        assert_eq!(with_targets, expected.map(|(key, bound)| (key.to_owned(), bound)));
    }
}

//! `foo-converge`: operators like Kubernetes' sample controller, from their start until they have converged.

mod bowline;
mod kube_rs;
pub(crate) mod load;
mod object;
pub(crate) mod operator;
mod requests;
pub(crate) mod server;

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, io};

use crate::apiserver::program;
use crate::arguments::{FooArguments, Peer};
use crate::companion::Companion;
use crate::go::Library;
use crate::maker::{KUBE_RS, Maker};
use crate::metric::{CPU_S, RSS_PEAK_MIB, RSS_SETTLED_MIB, WALL_S};
use crate::report::{Compared, Metric, Row, Target, row};
use crate::subject::{OURS, Subject, Work};
use crate::{go, scenario};

use operator::Mode;

const SCENARIO: &str = "foo-converge";
const PEERS: &[Peer] = &[Peer::Go, Peer::KubeRs];

/// Numbers of Foos, each with a maximum of pairs.
const SIZES: [(usize, Option<usize>); 2] = [(500, None), (5_000, Some(3))];
const WORKERS: [usize; 2] = [2, 16];

/// The longest run takes some two minutes on an idle machine.
const LIMIT: Duration = Duration::from_secs(900);

const CONFLICTS: Metric = Metric { name: "conflicts", unit: "answers" };
const API_CALLS: Metric = Metric { name: "api_calls", unit: "requests" };
const EVENTS: Metric = Metric { name: "events", unit: "events" };
const IDLE_WRITES: Metric = Metric { name: "idle_writes", unit: "requests" };

/// The operators in Go, and their programs.
const GO: [(Library, &str); 2] =
    [(go::CLIENT_GO, "client-go-foo"), (go::CONTROLLER_RUNTIME, "controller-runtime-foo")];

/// The operators in Rust, which are programs of this package.
const BOWLINE_FOO: &str = "bowline-foo";
const KUBE_RS_FOO: &str = "kube-rs-foo";

/// Number of Foos, and of workers, for the cost of an election.
const ELECTION_N: usize = 500;
const ELECTION_WORKERS: usize = 2;

/// Allowed cost of an election.
const ELECTION_TARGET: Target = Target::AtMost(1.05);

/// Runs the scenario and prints its results, see [`scenario::run`].
pub(crate) fn run(arguments: &FooArguments) -> ExitCode {
    let scenario = scenario::Scenario { name: SCENARIO, peers: PEERS };
    // Kept until all have run.
    let mut companion = None;
    let subjects = |peers: &BTreeSet<Peer>| {
        let programs = peers.contains(&Peer::Go).then(go::build).transpose()?;
        let started = companion.insert(Companion::foo(&program::real()?.directory)?);
        subjects(peers, programs.as_deref(), started.file())
    };
    scenario::run(scenario, &arguments.common, subjects, all_work(arguments))
}

/// All requested workloads.
fn all_work(arguments: &FooArguments) -> Vec<Work> {
    let FooArguments { n, workers, election, .. } = *arguments;
    let with_election = || election_work(n.unwrap_or(ELECTION_N), workers.unwrap_or(ELECTION_WORKERS));
    if election {
        return vec![with_election()];
    }
    let known = |n| SIZES.into_iter().find(|(size, _)| *size == n).unwrap_or((n, None));
    let sizes = n.map_or(SIZES.to_vec(), |n| vec![known(n)]);
    let workers = workers.map_or(WORKERS.to_vec(), |workers| vec![workers]);
    let mut all: Vec<_> =
        sizes.iter().flat_map(|(n, most)| workers.iter().map(|workers| work(*n, *workers, *most))).collect();
    if n.is_none() {
        all.push(with_election());
    }
    all
}

/// Ours and those of the peers. Each is this program, which starts the operator in another process.
fn subjects(
    peers: &BTreeSet<Peer>,
    programs: Option<&Path>,
    endpoint: &Path,
) -> Result<Vec<Subject>, Box<dyn Error>> {
    let subject = |name, version: &str, program: &Path| -> io::Result<Subject> {
        let mut arguments = vec!["foo-load".to_owned()];
        for (name, value) in [("endpoint", endpoint), ("program", program)] {
            arguments.extend([format!("--{name}"), value.display().to_string()]);
        }
        Ok(Subject { name, version: version.to_owned(), program: env::current_exe()?, arguments })
    };
    let in_rust = |maker: Maker, program| -> Result<Subject, Box<dyn Error>> {
        Ok(subject(maker.name(), maker.version(), &program::beside(program)?)?)
    };
    let mut subjects = vec![in_rust(Maker::Bowline, BOWLINE_FOO)?];
    if let Some(programs) = programs {
        for (library, program) in GO {
            subjects.push(subject(library.name, library.version(), &programs.join(program))?);
        }
    }
    if peers.contains(&Peer::KubeRs) {
        subjects.push(in_rust(Maker::KubeRs, KUBE_RS_FOO)?);
    }
    Ok(subjects)
}

fn work(n: usize, workers: usize, most_pairs: Option<usize>) -> Work {
    let variant = format!("workers={workers} n={n}");
    let at_most = |go, kube_rs| {
        let [client_go, controller_runtime] = GO.map(|(library, _)| (library.name, Target::AtMost(go)));
        [client_go, controller_runtime, (KUBE_RS, Target::AtMost(kube_rs))]
    };
    let none = |metric| Row { at_most: Some(0.0), ..row(&variant, metric, &[]) };
    let rows = vec![
        row(&variant, CPU_S, &at_most(0.5, 0.9)),
        row(&variant, RSS_PEAK_MIB, &at_most(0.65, 1.0)),
        row(&variant, RSS_SETTLED_MIB, &at_most(0.65, 1.0)),
        row(&variant, WALL_S, &at_most(1.2, 1.2)),
        row(&variant, API_CALLS, &[]),
        row(&variant, EVENTS, &[]),
        none(CONFLICTS),
        none(IDLE_WRITES),
    ];
    let arguments = ["--n".to_owned(), n.to_string(), "--workers".to_owned(), workers.to_string()];
    Work { name: variant.clone(), arguments: arguments.into(), rows, limit: LIMIT, most_pairs }
}

/// Three controllers of ours below one manager, with an election and without, in the same run.
fn election_work(n: usize, workers: usize) -> Work {
    let (alone, elected) =
        (format!("managed workers={workers} n={n}"), format!("election workers={workers} n={n}"));
    let mut rows = Vec::new();
    for (metric, targets) in [
        (CPU_S, &[(OURS, ELECTION_TARGET)][..]),
        (RSS_PEAK_MIB, &[(OURS, ELECTION_TARGET)]),
        (RSS_SETTLED_MIB, &[(OURS, ELECTION_TARGET)]),
        (WALL_S, &[]),
        (EVENTS, &[]),
    ] {
        let compared = Compared::Nothing;
        let key = Mode::Elected.key(metric.name);
        let own = Some(metric.name.to_owned());
        rows.push(Row { compared: compared.clone(), ..row(&alone, metric, &[]) });
        rows.push(Row { key, compared, own, ..row(&elected, metric, targets) });
    }
    let arguments = [("--n", n), ("--workers", workers)];
    let mut all: Vec<_> =
        arguments.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]).collect();
    all.push("--election".to_owned());
    Work { name: elected, arguments: all, rows, limit: LIMIT, most_pairs: None }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn names(arguments: &[&str]) -> Vec<String> {
        let all = ["bowline-bench", SCENARIO].iter().chain(arguments);
        let Command::FooConverge(arguments) = Arguments::try_parse_from(all).unwrap().command else {
            panic!("another command");
        };
        all_work(&arguments).into_iter().map(|work| work.name).collect()
    }

    #[test]
    fn sizes_workers_and_the_election_can_be_asked_for_alone() {
        let election = "election workers=2 n=500";
        let all = ["workers=2 n=500", "workers=16 n=500", "workers=2 n=5000", "workers=16 n=5000", election];
        assert_eq!(names(&[]), all);
        assert_eq!(names(&["--n", "5000", "--workers", "16"]), ["workers=16 n=5000"]);
        assert_eq!(names(&["--election"]), [election]);
    }

    #[test]
    fn a_size_that_is_asked_for_alone_is_run_no_more_often() {
        let Command::FooConverge(arguments) =
            Arguments::try_parse_from(["bowline-bench", SCENARIO, "--n", "5000"]).unwrap().command
        else {
            panic!("another command");
        };
        assert!(all_work(&arguments).iter().all(|work| work.pairs(5) == 3));
    }

    #[test]
    fn an_election_is_held_against_the_same_without() {
        let work = election_work(500, 2);
        let reported: Vec<_> = work
            .rows
            .iter()
            .flat_map(|row| row.targets.iter().map(move |(whom, target)| (row, whom, target)))
            .map(|(row, whom, target)| {
                let own = work.rows.iter().find(|other| Some(&other.key) == row.own.as_ref()).unwrap();
                format!("{}: {} {target} {whom} {}", row.variant, row.metric.name, own.variant)
            })
            .collect();
        let expected = ["cpu_s", "rss_peak_mib", "rss_settled_mib"].map(|metric| {
            format!("election workers=2 n=500: {metric} ≤ 1.05× bowline managed workers=2 n=500")
        });
        assert_eq!(reported, expected);
    }

    #[test]
    fn variants_and_targets_are_the_agreed_ones() {
        let work = work(500, 16, Some(3));
        let reported: Vec<_> = work
            .rows
            .iter()
            .flat_map(|row| {
                let bound = row.at_most.map(|bound| format!("{} ≤ {bound}", row.metric.name));
                let targets =
                    row.targets.iter().map(|(peer, target)| format!("{} {target} {peer}", row.metric.name));
                bound.into_iter().chain(targets)
            })
            .collect();
        let mut expected = Vec::new();
        for (metric, go, kube_rs) in [
            ("cpu_s", "0.5", "0.9"),
            ("rss_peak_mib", "0.65", "1"),
            ("rss_settled_mib", "0.65", "1"),
            ("wall_s", "1.2", "1.2"),
        ] {
            for (peer, bound) in [("client-go", go), ("controller-runtime", go), ("kube-rs", kube_rs)] {
                expected.push(format!("{metric} ≤ {bound}× {peer}"));
            }
        }
        expected.extend(["conflicts ≤ 0", "idle_writes ≤ 0"].map(str::to_owned));
        assert_eq!(reported, expected);
        assert!(work.rows.iter().all(|row| row.variant == "workers=16 n=500"));
        assert_eq!((work.pairs(5), work.pairs(1)), (3, 1));
    }
}

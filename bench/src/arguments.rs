//! The command line: scenario, peers, number of runs.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::apiserver::load::LoadArguments;
use crate::apiserver::subject::Task;
use crate::foo::load::FooLoadArguments;
use crate::informer::subject::InformerSubjectArguments;
use crate::reconcile::subject::ReconcileSubjectArguments;
use crate::replay::widget::GROUP;
use crate::sink::Logger;
use crate::workqueue::Workload;

/// Minimum number of pairs for a result that counts: single runs on one machine can differ by half.
pub(crate) const PAIRS_THAT_COUNT: usize = 5;

/// Run the same work on Bowline and on its peers, interleaved, and compare.
#[derive(Debug, Parser)]
#[command(name = "bowline-bench", subcommand_value_name = "SCENARIO", subcommand_help_heading = "Scenarios")]
#[command(disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Keys through the work queue, and the memory of waiting keys
    Workqueue(WorkqueueArguments),
    /// Start of an API server until it is ready, and its memory when idle
    ApiserverStart(Common),
    /// Objects of 1 KB created, updated and read over 16 and 64 connections: 10,000 of each by default
    ApiserverWrite(ApiserverArguments),
    /// Objects of 1.5 and 5 KB listed, whole and by pages, and their memory: 20,000 of each by default
    ApiserverList(ApiserverArguments),
    /// Latency of updates to 1 and to 100 watchers: 1,000 updates by default
    ApiserverWatch(ApiserverArguments),
    /// Sync of an informer, and its memory: 20,000 objects of each kind by default
    InformerSync(InformerArguments),
    /// Ten updates of each object to three handlers of one informer: 20,000 objects by default
    InformerEvents(InformerArguments),
    /// Reads from an informer by key and by index, during updates: 20,000 objects by default
    CacheRead(InformerArguments),
    /// Reconciles of cached objects without changes, five per object: 100,000 reconciles by default
    ReconcileThroughput(ReconcileArguments),
    /// Latency of updates to a reconciler, single and under load: 20,000 objects by default
    ReconcileLatency(InformerArguments),
    /// An operator like the sample controller, until it has converged: with 500 and with 5,000 Foos by default
    FooConverge(FooArguments),
    /// One workload on our own queue, in this process; used by `workqueue`
    #[command(hide = true)]
    WorkqueueSubject {
        #[arg(long)]
        workload: Workload,
        #[arg(long)]
        n: usize,
    },
    /// One run on one API server; used by the `apiserver-…` scenarios
    #[command(hide = true)]
    ApiserverLoad(LoadArguments),
    /// Our own API server, in this process
    #[command(hide = true)]
    ApiserverSubject {
        #[arg(long)]
        task: Task,
        #[arg(long, default_value_t = 1)]
        n: usize,
    },
    /// One run of one informer; used by the scenarios about informers
    #[command(hide = true)]
    InformerSubject(InformerSubjectArguments),
    /// kube-apiserver with objects, until stdin ends; prints its endpoint to stdout first
    #[command(hide = true)]
    InformerServer {
        #[arg(long)]
        programs: PathBuf,
        #[arg(long)]
        n: usize,
    },
    /// One run of one controller; used by the scenarios about reconcilers
    #[command(hide = true)]
    ReconcileSubject(ReconcileSubjectArguments),
    /// kube-apiserver with the kind Foo, until stdin ends; prints its endpoint to stdout first
    #[command(hide = true)]
    FooServer {
        #[arg(long)]
        programs: PathBuf,
    },
    /// One run of one operator; used by `foo-converge`
    #[command(hide = true)]
    FooLoad(FooLoadArguments),
    /// The replay server of the informer scenarios, until stdin ends; prints its endpoint to stdout first
    #[command(hide = true)]
    ReplayServer {
        #[arg(long)]
        n: usize,
    },
    /// Speed of the replay server with a client that only reads
    #[command(hide = true)]
    ReplayCeiling {
        #[arg(long, default_value_t = 20_000)]
        n: usize,
    },
}

/// Arguments of every scenario.
#[derive(Args, Debug)]
pub(crate) struct Common {
    /// Peer to compare with; may be given more than once
    #[arg(long = "peer", value_name = "PEER")]
    peers: Vec<Peer>,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Number of runs of each workload per subject; below 5 the result does not count
    #[arg(long, default_value_t = PAIRS_THAT_COUNT, value_parser = at_least_one)]
    pub(crate) pairs: usize,
}

#[derive(Args, Debug)]
pub(crate) struct ApiserverArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Objects or requests of each kind in one run
    #[arg(long, value_parser = at_least_one)]
    pub(crate) n: Option<usize>,
}

#[derive(Args, Debug)]
pub(crate) struct FooArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Only with this number of Foos
    #[arg(long, value_parser = at_least_one)]
    pub(crate) n: Option<usize>,
    /// Only with this number of workers. Default: 2 and 16
    #[arg(long, value_parser = at_least_one)]
    pub(crate) workers: Option<usize>,
    /// Only the cost of an election: three controllers of ours with one and without
    #[arg(long, conflicts_with = "peers")]
    pub(crate) election: bool,
}

#[derive(Args, Debug)]
pub(crate) struct InformerArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Objects of each kind; a multiple of 100
    #[arg(long, default_value_t = 20_000, value_parser = hundreds)]
    pub(crate) n: usize,
}

#[derive(Args, Debug)]
pub(crate) struct ReconcileArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Reconciles that count; a multiple of 500
    #[arg(long, default_value_t = 100_000, value_parser = five_hundreds)]
    pub(crate) n: usize,
    /// Logger of the subjects in Rust
    #[arg(long, value_enum, default_value_t = Logger::Bowline)]
    pub(crate) logger: Logger,
}

#[derive(Args, Debug)]
pub(crate) struct WorkqueueArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Keys pushed through the queue in one run
    #[arg(long, default_value_t = 1_000_000, value_parser = at_least_one)]
    pub(crate) n: usize,
    /// Run only this workload; may be given more than once
    #[arg(long = "workload", value_name = "WORKLOAD")]
    workloads: Vec<Workload>,
}

/// A family of programs to compare with. One peer can stand for several subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Peer {
    Go,
    KubeRs,
    KubeApiserver,
}

/// The scenario has no subject for a requested peer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoSuchPeer {
    scenario: &'static str,
    peer: Peer,
    available: &'static [Peer],
}

impl Common {
    /// The requested peers, each once.
    ///
    /// # Errors
    /// When the scenario does not support one of them.
    pub(crate) fn peers(
        &self,
        scenario: &'static str,
        available: &'static [Peer],
    ) -> Result<BTreeSet<Peer>, NoSuchPeer> {
        match self.peers.iter().find(|peer| !available.contains(peer)) {
            Some(&peer) => Err(NoSuchPeer { scenario, peer, available }),
            None => Ok(self.peers.iter().copied().collect()),
        }
    }
}

impl WorkqueueArguments {
    /// The workloads to run. Default: all.
    pub(crate) fn workloads(&self) -> Vec<Workload> {
        let asked: BTreeSet<_> = self.workloads.iter().copied().collect();
        if asked.is_empty() { Workload::value_variants().to_vec() } else { asked.into_iter().collect() }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Go => "go",
            Self::KubeRs => "kube-rs",
            Self::KubeApiserver => "kube-apiserver",
        })
    }
}

impl fmt::Display for NoSuchPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, peer, available } = self;
        let available: Vec<_> = available.iter().map(ToString::to_string).collect();
        write!(f, "{scenario} has no subject for the peer {peer}; it has: {}", available.join(", "))
    }
}

impl std::error::Error for NoSuchPeer {}

/// Name of a value on the command line.
pub(crate) fn typed(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("every value of ours can be typed");
    value.get_name().to_owned()
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses a multiple of a hundred.
fn hundreds(text: &str) -> Result<usize, String> {
    match at_least_one(text)? {
        number if number.is_multiple_of(GROUP) => Ok(number),
        _ => Err(format!("must be a multiple of {GROUP}")),
    }
}

/// Parses a multiple of five hundred: five reconciles per object.
fn five_hundreds(text: &str) -> Result<usize, String> {
    match at_least_one(text)? {
        number if number.is_multiple_of(5 * GROUP) => Ok(number),
        _ => Err(format!("must be a multiple of {}", 5 * GROUP)),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn workqueue(arguments: &[&str]) -> WorkqueueArguments {
        let all = ["bowline-bench", "workqueue"].iter().chain(arguments);
        match Arguments::try_parse_from(all).unwrap().command {
            Command::Workqueue(arguments) => arguments,
            other => panic!("not the scenario: {other:?}"),
        }
    }

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_is_typed_for_a_value_is_that_value() {
        for logger in Logger::value_variants() {
            let arguments = ["bowline-bench", "reconcile-throughput", "--logger", &typed(logger)];
            match Arguments::try_parse_from(arguments).unwrap().command {
                Command::ReconcileThroughput(parsed) => assert_eq!(parsed.logger, *logger),
                other => panic!("not the scenario: {other:?}"),
            }
        }
        assert_eq!(typed(&Logger::TracingSubscriber), "tracing-subscriber");
    }

    #[test]
    fn a_peer_is_displayed_as_it_is_typed() {
        for peer in Peer::value_variants() {
            assert_eq!(peer.to_string(), peer.to_possible_value().unwrap().get_name());
        }
    }

    #[test]
    fn a_peer_without_a_subject_is_refused_and_the_others_are_named() {
        let arguments = workqueue(&["--peer", "go", "--peer", "kube-rs"]);
        let error = arguments.common.peers("workqueue", &[Peer::Go, Peer::KubeApiserver]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "workqueue has no subject for the peer kube-rs; it has: go, kube-apiserver"
        );
    }

    #[test]
    fn a_peer_given_twice_counts_once() {
        let arguments = workqueue(&["--peer", "go", "--peer", "go"]);
        assert_eq!(arguments.common.peers("workqueue", &[Peer::Go]), Ok(BTreeSet::from([Peer::Go])));
    }

    #[test]
    fn zero_pairs_are_refused() {
        assert!(Arguments::try_parse_from(["bowline-bench", "workqueue", "--pairs", "0"]).is_err());
    }

    #[test]
    fn an_api_server_scenario_has_its_usual_size_unless_told() {
        let n = |arguments: &[&str]| {
            let all =
                ["bowline-bench", "apiserver-write", "--peer", "kube-apiserver"].iter().chain(arguments);
            match Arguments::try_parse_from(all).unwrap().command {
                Command::ApiserverWrite(arguments) => arguments.n,
                other => panic!("not the scenario: {other:?}"),
            }
        };
        assert_eq!(n(&[]), None);
        assert_eq!(n(&["--n", "50"]), Some(50));
    }

    #[test]
    fn informers_have_whole_groups_of_objects() {
        let parse = |n| Arguments::try_parse_from(["bowline-bench", "cache-read", "--n", n]);
        assert!(parse("300").is_ok());
        assert!(parse("250").unwrap_err().to_string().contains("must be a multiple of 100"));
        assert!(parse("0").is_err());
    }

    #[test]
    fn all_workloads_run_unless_some_are_named() {
        assert_eq!(workqueue(&[]).workloads(), Workload::value_variants());
        assert_eq!(workqueue(&["--workload", "waiting"]).workloads(), [Workload::Waiting]);
    }
}

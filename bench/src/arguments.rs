//! The command line: which scenario, against whom, how often.

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

/// Fewer pairs than this say nothing on a machine whose runs differ by half.
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
    /// Keys through the work queue, and the memory of those that wait in it
    Workqueue(WorkqueueArguments),
    /// An API server from the start of its process until it is ready, and its memory when idle
    ApiserverStart(Common),
    /// Objects of 1 KB created, updated and read over 16 and 64 connections: 10,000 of each by default
    ApiserverWrite(ApiserverArguments),
    /// Objects of 1.5 and 5 KB listed, whole and by pages, and their memory: 20,000 of each by default
    ApiserverList(ApiserverArguments),
    /// Updates on their way to 1 and to 100 watchers: 1,000 by default
    ApiserverWatch(ApiserverArguments),
    /// An informer from its start until it has all objects, and their memory: 20,000 of each kind by default
    InformerSync(InformerArguments),
    /// Ten updates of each object on their way to three handlers of one informer: 20,000 objects by default
    InformerEvents(InformerArguments),
    /// Objects read from an informer by key and by index, during updates: 20,000 objects by default
    CacheRead(InformerArguments),
    /// Objects that are in the cache and need nothing, reconciled five times: 100,000 reconciles by default
    ReconcileThroughput(ReconcileArguments),
    /// Updates on their way to a reconciler, one by one and many: 20,000 objects by default
    ReconcileLatency(InformerArguments),
    /// An operator like the sample controller, until all is as it should be: with 500 and with 5,000 Foos by default
    FooConverge(FooArguments),
    /// One workload on our own queue, in this process: how `workqueue` runs itself
    #[command(hide = true)]
    WorkqueueSubject {
        #[arg(long)]
        workload: Workload,
        #[arg(long)]
        n: usize,
    },
    /// One run on one API server: how the `apiserver-…` scenarios run themselves
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
    /// One run of one informer: how the scenarios about informers run themselves
    #[command(hide = true)]
    InformerSubject(InformerSubjectArguments),
    /// kube-apiserver with objects: until stdin ends, the first line of stdout tells where
    #[command(hide = true)]
    InformerServer {
        #[arg(long)]
        programs: PathBuf,
        #[arg(long)]
        n: usize,
    },
    /// One run of one controller: how the scenarios about reconcilers run themselves
    #[command(hide = true)]
    ReconcileSubject(ReconcileSubjectArguments),
    /// kube-apiserver that knows Foos: until stdin ends, the first line of stdout tells where
    #[command(hide = true)]
    FooServer {
        #[arg(long)]
        programs: PathBuf,
    },
    /// One run of one operator: how `foo-converge` runs itself
    #[command(hide = true)]
    FooLoad(FooLoadArguments),
    /// The server that plays watches to the informer scenarios: until stdin ends, the first line of stdout tells where
    #[command(hide = true)]
    ReplayServer {
        #[arg(long)]
        n: usize,
    },
    /// How fast the replay server is, to a client that only reads
    #[command(hide = true)]
    ReplayCeiling {
        #[arg(long, default_value_t = 20_000)]
        n: usize,
    },
}

/// What every scenario takes.
#[derive(Args, Debug)]
pub(crate) struct Common {
    /// Whom to compare with; may be given more than once
    #[arg(long = "peer", value_name = "PEER")]
    peers: Vec<Peer>,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// How often each subject runs each workload; below 5 the result does not count
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
    /// With so many Foos alone
    #[arg(long, value_parser = at_least_one)]
    pub(crate) n: Option<usize>,
    /// With so many workers alone; 2 and 16 by default
    #[arg(long, value_parser = at_least_one)]
    pub(crate) workers: Option<usize>,
    /// Only what an election costs: three controllers of ours with one and without
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
    /// Who writes the lines of the subjects in Rust
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

/// A peer was asked for that the scenario has no subject for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoSuchPeer {
    scenario: &'static str,
    peer: Peer,
    available: &'static [Peer],
}

impl Common {
    /// The peers that were asked for, each once.
    ///
    /// # Errors
    /// When one of them is not among those the scenario has.
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
    /// The workloads to run: those asked for, by default all.
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

/// What is typed for a value on the command line.
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

/// Groups of a hundred objects are whole.
fn hundreds(text: &str) -> Result<usize, String> {
    match at_least_one(text)? {
        number if number.is_multiple_of(GROUP) => Ok(number),
        _ => Err(format!("must be a multiple of {GROUP}")),
    }
}

/// Five reconciles of each object, in whole groups.
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

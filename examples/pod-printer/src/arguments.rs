//! The command line arguments and their help.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Parser;

/// Prints the state of pods: the first operator to read, written with Bowline
///
/// Without arguments it needs no cluster: it starts an API server inside this process, creates, changes and deletes a few
/// pods there, prints their states, and ends.
#[derive(Debug, Parser)]
#[command(name = "pod-printer", version, max_term_width = 100, after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Watch the pods of a cluster, until Ctrl-C or SIGTERM; nothing is changed there
    ///
    /// Without a path: the kubeconfig of $KUBECONFIG, or else the cluster of this pod, or else ~/.kube/config.
    #[arg(long, value_name = "PATH", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "it is there or not, with a path or without")]
    pub(crate) kubeconfig: Option<Option<PathBuf>>,

    /// Namespace of the pods
    #[arg(long, short, value_name = "NAME", default_value = "default", requires = "kubeconfig")]
    pub(crate) namespace: String,

    /// Stay after the demo, until Ctrl-C or SIGTERM, and print a kubeconfig for kubectl
    #[arg(long)]
    pub(crate) watch: bool,

    /// Pods that are handled at the same time
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) workers: NonZeroUsize,
}

const EXAMPLES: &str = "\
Examples:
  pod-printer                                 the demo, on an API server inside this process
  pod-printer --watch                         the demo, then your changes with kubectl
  pod-printer --kubeconfig                    the pods of your cluster's namespace default
  pod-printer --kubeconfig PATH -n NAME       another cluster, another namespace

States of pods go to the standard output, logs to the standard error.";

impl Arguments {
    /// Whether the demo creates, changes and deletes pods.
    pub(crate) fn plays_demo(&self) -> bool {
        self.kubeconfig.is_none()
    }

    /// Whether it runs until a signal comes.
    pub(crate) fn stays(&self) -> bool {
        self.watch || !self.plays_demo()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_real_cluster_is_never_changed() {
        let read = |arguments: &str| Arguments::parse_from(arguments.split(' '));
        let [own, stay] = ["pod-printer", "pod-printer --watch"].map(read);
        assert!(own.plays_demo() && !own.stays());
        assert!(stay.plays_demo() && stay.stays());
        let [usual, named] = ["pod-printer --kubeconfig", "pod-printer --kubeconfig path -n web"].map(read);
        assert!(usual.kubeconfig == Some(None) && !usual.plays_demo() && usual.stays());
        assert!(named.kubeconfig == Some(Some("path".into())) && !named.plays_demo() && named.stays());
        assert!(Arguments::try_parse_from(["pod-printer", "-n", "web"]).is_err(), "the demo is in default");
    }
}

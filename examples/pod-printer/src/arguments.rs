//! The arguments as they are typed, and the help about them.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Parser;

/// Prints what happens to pods: the first operator to read, written with Bowline
///
/// Without arguments it needs no cluster: it starts an API server inside this process, creates, changes and deletes a few
/// pods there, prints what it sees of that, and ends.
#[derive(Debug, Parser)]
#[command(name = "pod-printer", version, max_term_width = 100, after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Look at a real cluster, until Ctrl-C or SIGTERM; nothing is changed there
    ///
    /// Without a path: what $KUBECONFIG names, or else ~/.kube/config, or else the cluster that this runs in.
    #[arg(long, value_name = "PATH", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "it is there or not, with a path or without")]
    pub(crate) kubeconfig: Option<Option<PathBuf>>,

    /// The namespace to look at
    #[arg(long, short, value_name = "NAME", default_value = "default", requires = "kubeconfig")]
    pub(crate) namespace: String,

    /// Stay after the demo, until Ctrl-C or SIGTERM
    ///
    /// The API server inside this process is put on a port of 127.0.0.1, so that kubectl can change pods.
    #[arg(long)]
    pub(crate) watch: bool,

    /// So many pods are worked on at once
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) workers: NonZeroUsize,
}

const EXAMPLES: &str = "\
Examples:
  pod-printer                                 the demo, on a server of its own
  pod-printer --watch                         the demo, then whatever you do with kubectl
  pod-printer --kubeconfig                    the pods of your cluster's namespace default
  pod-printer --kubeconfig PATH -n NAME       another cluster, another namespace

What it sees goes to the standard output, what it has to say about itself to the standard error.";

impl Arguments {
    /// Whether pods are created, changed and deleted.
    pub(crate) fn plays_demo(&self) -> bool {
        self.kubeconfig.is_none()
    }

    /// Whether it goes on until a signal comes.
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

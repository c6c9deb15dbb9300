//! The arguments as they are typed, and the help about them.

use std::path::PathBuf;

use clap::Parser;

/// Gives every Foo the Deployment that it names: the operator that everybody knows, written with Bowline
///
/// Without arguments it needs no cluster: it starts an API server inside this process, on a port of 127.0.0.1, and creates a
/// Foo there. It goes on until Ctrl-C or SIGTERM.
#[derive(Debug, Parser)]
#[command(name = "sample-controller", version, max_term_width = 100, after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Work on a real cluster
    ///
    /// Without a path: what $KUBECONFIG names, or else the cluster that this runs in, or else ~/.kube/config.
    #[arg(long, value_name = "PATH", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "it is there or not, with a path or without")]
    pub(crate) kubeconfig: Option<Option<PathBuf>>,

    /// Look after the Foos of one namespace only
    #[arg(long, short, value_name = "NAME", requires = "kubeconfig")]
    pub(crate) namespace: Option<String>,

    /// Print the definition of the kind Foo, which a real cluster needs, and end
    #[arg(long, conflicts_with = "kubeconfig")]
    pub(crate) crd: bool,
}

const EXAMPLES: &str = "\
Examples:
  sample-controller                               on a server of its own
  sample-controller --crd | kubectl apply -f -    what a real cluster needs, once
  sample-controller --kubeconfig                  on your cluster
  sample-controller --kubeconfig PATH             on another cluster";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }
}

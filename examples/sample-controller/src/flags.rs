//! The program's own flags, and the examples in its help.

/// Gives every Foo the Deployment that it names: Kubernetes' sample-controller, written with Bowline
///
/// Without arguments it needs no cluster, unless it runs in a pod: it starts an API server inside this process, creates a Foo
/// there, and prints how to reach it with kubectl. Ctrl-C or SIGTERM stops both.
#[derive(Debug, clap::Parser)]
#[command(version, after_long_help = EXAMPLES)]
// Every reconcile is logged, with its triggers.
#[command(mut_arg("log_level", |arg| arg.default_value("info,bowline_runtime::controller=debug")))]
#[command(mut_arg("leader_election_id", |arg| arg.default_value(env!("CARGO_PKG_NAME"))))]
#[command(mut_arg("max_concurrent_reconciles", |arg| arg.default_value("2")))]
pub(crate) struct Flags {
    /// Print the definition of the kind Foo, which a cluster needs, and end
    #[arg(long)]
    pub(crate) crd: bool,
}

const EXAMPLES: &str = "\
Examples:
  sample-controller                               on an API server inside this process
  sample-controller --apply FILE                  the same, with your Foos
  sample-controller --crd | kubectl apply -f -    install the kind Foo on your cluster, once
  sample-controller --kubeconfig                  on your cluster
  sample-controller --kubeconfig PATH             on another cluster
  sample-controller --kubeconfig --leader-elect --leader-election-namespace=default \\
    --health-probe-bind-address=0                 as one of several replicas on one machine
  sample-controller --metrics-bind-address=127.0.0.1:8080 --enable-debug
                                                  with http://127.0.0.1:8080/debug";

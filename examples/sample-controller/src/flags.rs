//! The flags that only this program has, and what its help says beyond them.

/// Gives every Foo the Deployment that it names: the operator that everybody knows, written with Bowline
///
/// Without arguments it needs no cluster, unless it runs in one: it starts an API server inside this process, on a port of
/// 127.0.0.1, and creates a Foo there. It goes on until Ctrl-C or SIGTERM. On that server it answers no probes unless told
/// where, and serves metrics without TLS and to everybody, because nobody has a token there.
#[derive(Debug, clap::Parser)]
#[command(version, after_long_help = EXAMPLES)]
// Every reconcile is logged, with why it ran.
#[command(mut_arg("log_level", |arg| arg.default_value("info,bowline_runtime::controller=debug")))]
#[command(mut_arg("leader_election_id", |arg| arg.default_value(env!("CARGO_PKG_NAME"))))]
#[command(mut_arg("max_concurrent_reconciles", |arg| arg.default_value("2")))]
pub(crate) struct Flags {
    /// Print the definition of the kind Foo, which a real cluster needs, and end
    #[arg(long)]
    pub(crate) crd: bool,
}

const EXAMPLES: &str = "\
Examples:
  sample-controller                               on a server of its own
  sample-controller --crd | kubectl apply -f -    what a real cluster needs, once
  sample-controller --kubeconfig                  on your cluster
  sample-controller --kubeconfig PATH             on another cluster
  sample-controller --kubeconfig --leader-elect --leader-election-namespace=default \\
    --health-probe-bind-address=0                 as one of several replicas on one machine
  sample-controller --metrics-bind-address=127.0.0.1:8080 --enable-debug
                                                  with http://127.0.0.1:8080/debug";

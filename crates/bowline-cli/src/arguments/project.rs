//! The arguments of the commands that build a project's operator.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::Output;

/// Write the operator's CRDs, roles, deployment, alerts and dashboard as YAML
#[derive(Debug, Args)]
#[command(after_long_help = MANIFESTS)]
pub(crate) struct Manifests {
    /// Folder to write to [default: 'manifests' in the project]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Image of the operator [default: 'image' in bowline.toml, or else NAME:latest]
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,

    /// Namespace of the operator [default: 'namespace' in bowline.toml, or else NAME-system]
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,

    /// Write nothing, and fail if a file is not up to date
    #[arg(long)]
    pub(crate) check: bool,

    /// Format of the report
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

const MANIFESTS: &str = "\
Examples:
  bowline manifests --image registry.example.com/games:1.2.0
  kubectl apply -f manifests/install.yaml
  bowline manifests --check

  The operator's program is built and asked what it declares; it opens no connection. Roles follow
  from the declarations of its controllers. Files that are no longer needed are removed if this
  command wrote them; other files stay.";

/// Install the operator's CRDs on the cluster of the current context
#[derive(Debug, Args)]
#[command(after_long_help = INSTALL)]
pub(crate) struct Install {
    /// Context in the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// Format of the report
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

const INSTALL: &str = "\
Examples:
  bowline install
  bowline install --context staging

  CRDs that exist are replaced. The kubeconfig is that of $KUBECONFIG, or else ~/.kube/config.";

/// Delete the operator's CRDs from the cluster of the current context
#[derive(Debug, Args)]
#[command(after_long_help = UNINSTALL)]
pub(crate) struct Uninstall {
    /// Context in the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// Delete the CRDs although objects would be deleted with them
    #[arg(long)]
    pub(crate) force: bool,

    /// Format of the report
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

const UNINSTALL: &str = "\
Examples:
  bowline uninstall
  bowline uninstall --force

  A cluster deletes all objects of a kind with its CRD. Without --force, this command lists them and
  deletes nothing.";

/// Run the operator on the cluster of the current context
#[derive(Debug, Args)]
#[command(after_long_help = RUN)]
pub(crate) struct Run {
    /// Context in the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// Further arguments of the operator
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub(crate) args: Vec<OsString>,
}

const RUN: &str = "\
Examples:
  bowline install && bowline run
  bowline run --context staging -- --log-level debug

  The context is printed, and given to the operator by name. Its kinds must be installed.";

/// Run the operator on an API server in memory, and again after each change
#[derive(Debug, Args)]
#[command(after_long_help = DEV)]
pub(crate) struct Dev {
    /// Start no operator: print how to start it, for example in a debugger
    #[arg(long)]
    pub(crate) no_operator: bool,

    /// Create no objects of 'samples'
    #[arg(long)]
    pub(crate) no_samples: bool,

    /// Further arguments of the operator
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub(crate) args: Vec<OsString>,
}

const DEV: &str = "\
Examples:
  bowline dev
  bowline dev -- --log-level debug

  The API server has the kinds that the operator declares, and the objects of the folder 'samples'.
  Reconciles and their triggers, objects and log lines are shown as they come. A build that fails
  leaves the last one running.";

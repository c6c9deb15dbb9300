//! The flags of a manager as they are typed, and the help about them.

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use bowline_machinery::{validate_dns1123_label, validate_dns1123_subdomain};
use bowline_runtime::server::BindAddress;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use http::Uri;

use super::duration;
use crate::telemetry::{self, Format};

const CLUSTER: &str = "Cluster";
const SERVERS: &str = "Servers";
const ELECTION: &str = "Leader election";
const WORK: &str = "Work";
const LOGS: &str = "Logs";

/// The flags that a manager has. Names and meanings are those of kubebuilder's projects, where they have such a flag.
///
/// [`args`](super::args()) puts them beside a program's own. A program that has a [`clap::Parser`] of its own flattens them:
/// `#[command(flatten)] manager: ManagerFlags`.
#[derive(Clone, Debug, clap::Args)]
#[command(about = None, long_about = None)]
#[non_exhaustive]
pub struct ManagerFlags {
    /// The kubeconfig of the cluster [default: $KUBECONFIG, or the pod's, or ~/.kube/config]
    ///
    /// The flag without a path asks for the default, too.
    #[arg(long, value_name = "PATH", help_heading = CLUSTER, num_args = 0..=1, default_missing_value = "")]
    #[arg(value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", help_heading = CLUSTER)]
    pub context: Option<String>,

    /// The address of the API server, whatever the kubeconfig says
    #[arg(long, value_name = "URL", help_heading = CLUSTER, value_parser = server)]
    pub master: Option<Uri>,

    /// The namespaces to work in, comma-separated or one flag each [default: all]
    #[arg(long, short, value_name = "NAMES", help_heading = CLUSTER, value_delimiter = ',', value_parser = namespace)]
    pub namespace: Vec<String>,

    /// Where metrics are served, as HOST:PORT or :PORT; 0 is nowhere
    #[arg(long, value_name = "ADDRESS", help_heading = SERVERS, default_value = "0")]
    pub metrics_bind_address: BindAddress,

    /// Whether metrics are served over TLS, to those only whom the cluster lets read /metrics
    #[arg(long, value_name = "BOOL", help_heading = SERVERS, num_args = 0..=1, require_equals = true)]
    #[arg(action = clap::ArgAction::Set, default_value_t = true, default_missing_value = "true", hide_possible_values = true)]
    pub metrics_secure: bool,

    /// The directory of the metrics server's certificate [default: it signs one itself]
    #[arg(long, value_name = "PATH", help_heading = SERVERS)]
    pub metrics_cert_path: Option<PathBuf>,

    /// The file of the certificate in that directory
    #[arg(long, value_name = "NAME", help_heading = SERVERS, default_value = "tls.crt")]
    pub metrics_cert_name: String,

    /// The file of the certificate's key in that directory
    #[arg(long, value_name = "NAME", help_heading = SERVERS, default_value = "tls.key")]
    pub metrics_cert_key: String,

    /// Where /healthz and /readyz are served, as HOST:PORT or :PORT; 0 is nowhere
    #[arg(long, value_name = "ADDRESS", help_heading = SERVERS, default_value = "0")]
    pub health_probe_bind_address: BindAddress,

    /// Whether the metrics server shows at /debug what controllers do
    #[arg(long, value_name = "BOOL", help_heading = SERVERS, num_args = 0..=1, require_equals = true)]
    #[arg(action = clap::ArgAction::Set, default_value_t = false, default_missing_value = "true", hide_possible_values = true)]
    pub enable_debug: bool,

    /// Whether of several replicas only one acts: the one that has the lease
    #[arg(long, value_name = "BOOL", help_heading = ELECTION, num_args = 0..=1, require_equals = true)]
    #[arg(action = clap::ArgAction::Set, default_value_t = false, default_missing_value = "true", hide_possible_values = true)]
    pub leader_elect: bool,

    /// The name of the lease [default: the name of the program]
    #[arg(long, value_name = "NAME", help_heading = ELECTION, value_parser = lease)]
    pub leader_election_id: Option<String>,

    /// The namespace of the lease [default: that of the pod]
    #[arg(long, value_name = "NAME", help_heading = ELECTION, value_parser = namespace)]
    pub leader_election_namespace: Option<String>,

    /// How long others wait after the leader's last renewal before they take over
    #[arg(long, value_name = "DURATION", help_heading = ELECTION, default_value = "15s", value_parser = duration::parse)]
    pub leader_election_lease_duration: Duration,

    /// How long the leader goes on without a renewal before it gives up
    #[arg(long, value_name = "DURATION", help_heading = ELECTION, default_value = "10s", value_parser = duration::parse)]
    pub leader_election_renew_deadline: Duration,

    /// How long to wait between two tries to take or to renew the lease
    #[arg(long, value_name = "DURATION", help_heading = ELECTION, default_value = "2s", value_parser = duration::parse)]
    pub leader_election_retry_period: Duration,

    /// How many objects a controller works on at once, unless it says so itself
    #[arg(long, value_name = "NUMBER", help_heading = WORK, default_value = "1")]
    pub max_concurrent_reconciles: NonZero<usize>,

    /// How long what runs may take to end when the program is asked to
    #[arg(long, value_name = "DURATION", help_heading = WORK, default_value = "30s", value_parser = duration::parse)]
    pub graceful_shutdown_timeout: Duration,

    /// What is logged: a level, and others for parts of the code, like info,kube=debug
    #[arg(long, value_name = "LEVEL", help_heading = LOGS, default_value = "info", value_parser = log_level)]
    pub log_level: String,

    /// How a line of the log looks: text or json
    #[arg(long, value_name = "FORMAT", help_heading = LOGS, default_value = "text")]
    pub log_format: Format,
}

fn namespace(text: &str) -> Result<String, String> {
    let mistakes = validate_dns1123_label(text);
    valid(
        text,
        &mistakes,
        "a namespace has up to 63 lower case letters, digits and '-', and no '-' at its ends",
    )
}

fn lease(text: &str) -> Result<String, String> {
    let mistakes = validate_dns1123_subdomain(text);
    valid(
        text,
        &mistakes,
        "a name has up to 253 lower case letters, digits, '-' and '.', and begins and ends with one of the former two",
    )
}

fn valid(text: &str, mistakes: &[String], rule: &str) -> Result<String, String> {
    if mistakes.is_empty() { Ok(text.to_owned()) } else { Err(rule.to_owned()) }
}

fn server(text: &str) -> Result<Uri, String> {
    let is_web = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    let uri = text.parse::<Uri>().ok().filter(is_web);
    uri.ok_or_else(|| "an address is like https://10.0.0.1:6443".to_owned())
}

fn log_level(text: &str) -> Result<String, telemetry::TelemetryError> {
    telemetry::Options::new().level(text).validate()?;
    Ok(text.to_owned())
}

//! The flags of a manager as they are typed, and the help about them.

use std::convert::Infallible;
use std::ffi::OsString;
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
    // An empty value is none, as in Go, so that a template may leave it empty: the parser makes the `Option`. Its full name
    // tells clap so.
    #[arg(long, value_name = "NAME", help_heading = CLUSTER, value_parser = some_text)]
    #[arg(default_value = "", hide_default_value = true)]
    pub context: std::option::Option<String>,

    /// The address of the API server, whatever the kubeconfig says
    #[arg(long, value_name = "URL", help_heading = CLUSTER, value_parser = server)]
    #[arg(default_value = "", hide_default_value = true)]
    pub master: std::option::Option<Uri>,

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
    #[arg(long, value_name = "PATH", help_heading = SERVERS, value_parser = OsStringValueParser::new().map(some_path))]
    #[arg(default_value = "", hide_default_value = true)]
    pub metrics_cert_path: std::option::Option<PathBuf>,

    /// The file of the certificate in that directory
    #[arg(long, value_name = "NAME", help_heading = SERVERS, default_value = "tls.crt")]
    pub metrics_cert_name: String,

    /// The file of the certificate's key in that directory
    #[arg(long, value_name = "NAME", help_heading = SERVERS, default_value = "tls.key")]
    pub metrics_cert_key: String,

    /// Where /healthz and /readyz are served, as HOST:PORT or :PORT; 0 is nowhere
    #[arg(long, value_name = "ADDRESS", help_heading = SERVERS, default_value = ":8081")]
    pub health_probe_bind_address: BindAddress,

    /// Whether the metrics server shows at /debug what controllers do
    ///
    /// It needs --metrics-bind-address. With --metrics-secure, the page is for those whom the cluster lets get the URL /debug,
    /// which is more than /metrics, and who send a token, which browsers do not: curl -k -H "Authorization: Bearer $(kubectl
    /// create token NAME)". For a browser on the same machine: --metrics-bind-address=127.0.0.1:8080 --metrics-secure=false.
    #[arg(long, value_name = "BOOL", help_heading = SERVERS, num_args = 0..=1, require_equals = true)]
    #[arg(action = clap::ArgAction::Set, default_value_t = false, default_missing_value = "true", hide_possible_values = true)]
    pub enable_debug: bool,

    /// Whether of several replicas only one acts: the one that has the lease
    #[arg(long, value_name = "BOOL", help_heading = ELECTION, num_args = 0..=1, require_equals = true)]
    #[arg(action = clap::ArgAction::Set, default_value_t = false, default_missing_value = "true", hide_possible_values = true)]
    pub leader_elect: bool,

    /// The name of the lease, for all replicas of this operator and nobody else; --leader-elect needs one
    #[arg(long, value_name = "NAME", help_heading = ELECTION, value_parser = lease)]
    pub leader_election_id: Option<String>,

    /// The namespace of the lease [default: that of the pod]
    #[arg(long, value_name = "NAME", help_heading = ELECTION, value_parser = some_namespace)]
    #[arg(default_value = "", hide_default_value = true)]
    pub leader_election_namespace: std::option::Option<String>,

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

    /// How long a stop may take: for what runs to end, then for the last events and the lease
    ///
    /// The last 5s of it, or its last quarter if that is less, are kept for sending the last events and giving up the lease:
    /// what has not ended before that is aborted. 0 aborts everything at once. A pod's terminationGracePeriodSeconds is to be
    /// longer than this.
    #[arg(long, value_name = "DURATION", help_heading = WORK, default_value = "30s", value_parser = duration::parse)]
    pub graceful_shutdown_timeout: Duration,

    /// What is logged: a level, and others for parts of the code, like info,kube=debug
    #[arg(long, value_name = "LEVEL", help_heading = LOGS, default_value = "info", value_parser = log_level)]
    pub log_level: String,

    /// How a line of the log looks: text or json
    #[arg(long, value_name = "FORMAT", help_heading = LOGS, default_value = "text")]
    pub log_format: Format,
}

/// A namespace, or an empty text, of which a list makes nothing.
fn namespace(text: &str) -> Result<String, String> {
    let rule = "a namespace has up to 63 lower case letters, digits and '-', and no '-' at its ends";
    valid(text, validate_dns1123_label, rule)
}

fn some_namespace(text: &str) -> Result<Option<String>, String> {
    namespace(text).map(|namespace| Some(namespace).filter(|namespace| !namespace.is_empty()))
}

/// The name of a lease, or an empty text, which stands for the default.
fn lease(text: &str) -> Result<String, String> {
    let rule = "a name has up to 253 lower case letters, digits, '-' and '.', and begins and ends with one of the former two";
    valid(text, validate_dns1123_subdomain, rule)
}

fn valid(text: &str, mistakes: fn(&str) -> Vec<String>, rule: &str) -> Result<String, String> {
    if text.is_empty() || mistakes(text).is_empty() { Ok(text.to_owned()) } else { Err(rule.to_owned()) }
}

fn server(text: &str) -> Result<Option<Uri>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let is_web = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    let uri = text.parse::<Uri>().ok().filter(is_web);
    uri.map(Some).ok_or_else(|| "an address is like https://10.0.0.1:6443".to_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "a parser may fail")]
fn some_text(text: &str) -> Result<Option<String>, Infallible> {
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

fn some_path(text: OsString) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

fn log_level(text: &str) -> Result<String, telemetry::TelemetryError> {
    telemetry::Options::new().level(text).validate()?;
    Ok(text.to_owned())
}

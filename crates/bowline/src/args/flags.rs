//! The flags of a manager as they are typed, and the help about them.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use bowline_machinery::{validate_dns1123_label, validate_dns1123_subdomain};
use bowline_runtime::server::BindAddress;
use clap::ArgMatches;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::parser::ValueSource;
use http::Uri;

use super::duration;
use crate::telemetry::{self, Format};

const CLUSTER: &str = "Cluster";
const SERVERS: &str = "Servers";
const ELECTION: &str = "Leader election";
const WORK: &str = "Work";
const LOGS: &str = "Logs";

/// Default port of the probes, as in kubebuilder's projects.
const PROBE_PORT: u16 = 8081;

/// The flags of a manager. Names and meanings are those of kubebuilder's projects, where these have such a flag.
///
/// [`args`](super::args()) adds them to a program's own flags. A program with a [`clap::Parser`] of its own flattens them:
/// `#[command(flatten)] manager: ManagerFlags`.
#[derive(Clone, Debug, clap::Args)]
#[command(about = None, long_about = None)]
#[cfg_attr(feature = "plane", expect(clippy::struct_excessive_bools, reason = "each of them is a flag"))]
#[non_exhaustive]
pub struct ManagerFlags {
    // First: other fields take their values out of what the parser found.
    #[command(flatten)]
    pub(super) typed: TypedFlags,

    /// Run on an API server inside this process [default: if no cluster is named]
    ///
    /// The server listens on a free port of 127.0.0.1, keeps everything in memory and stops with this program. Its kubeconfig
    /// and commands to try are printed. The kinds of the operator are installed. Metrics are served without TLS, probes are off,
    /// and the lease is in the namespace default, unless a flag says otherwise.
    #[cfg(feature = "plane")]
    #[arg(long, help_heading = CLUSTER)]
    pub plane: bool,

    /// With a plane: create the objects of a YAML or JSON file; repeatable
    ///
    /// Objects of namespaced kinds without a namespace go to the namespace default. A file that cannot be read, or has a
    /// mistake, is an error before anything starts. Controllers run while the objects are created, in their order. An object
    /// that the server refuses ends the program; the objects before it may have been reconciled. On a cluster, use kubectl.
    #[cfg(feature = "plane")]
    #[arg(long, value_name = "FILE", help_heading = CLUSTER)]
    #[arg(value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub apply: Vec<PathBuf>,

    /// Run on the cluster of a kubeconfig; without PATH that of $KUBECONFIG or ~/.kube/config
    ///
    /// A cluster is used only if it is named: by --kubeconfig with or without a path, by --context, by --master, or by running
    /// in a pod. $KUBECONFIG and ~/.kube/config alone do not count.
    #[arg(long, value_name = "PATH", help_heading = CLUSTER, num_args = 0..=1, default_missing_value = "")]
    #[arg(value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub kubeconfig: Option<PathBuf>,

    /// Run on the cluster of this context of the kubeconfig
    // An empty value is none, as in Go, so that a template may leave it empty: the parser makes the `Option`. With its full
    // name, clap does not add another one.
    #[arg(long, value_name = "NAME", help_heading = CLUSTER, value_parser = some_text)]
    #[arg(default_value = "", hide_default_value = true)]
    pub context: std::option::Option<String>,

    /// Run on the cluster at this address, with the credentials of the kubeconfig
    #[arg(long, value_name = "URL", help_heading = CLUSTER, value_parser = server)]
    #[arg(default_value = "", hide_default_value = true)]
    pub master: std::option::Option<Uri>,

    /// Namespaces to work in, comma-separated or one flag each [default: all]
    #[arg(long, short, value_name = "NAMES", help_heading = CLUSTER, value_delimiter = ',', value_parser = namespace)]
    pub namespace: Vec<String>,

    /// Metrics address, HOST:PORT or :PORT; 0 disables
    #[arg(long, value_name = "ADDRESS", help_heading = SERVERS, default_value = "0")]
    pub metrics_bind_address: BindAddress,

    /// Serve metrics over TLS, to users who may get /metrics on the cluster
    #[arg(long, value_name = "BOOL", help_heading = SERVERS, num_args = 0..=1, require_equals = true)]
    #[arg(action = clap::ArgAction::Set, default_value_t = true, default_missing_value = "true", hide_possible_values = true)]
    pub metrics_secure: bool,

    /// Directory of the metrics server's certificate [default: a self-signed one]
    #[arg(long, value_name = "PATH", help_heading = SERVERS, value_parser = OsStringValueParser::new().map(some_path))]
    #[arg(default_value = "", hide_default_value = true)]
    pub metrics_cert_path: std::option::Option<PathBuf>,

    /// File of the certificate in that directory
    #[arg(long, value_name = "NAME", help_heading = SERVERS, default_value = "tls.crt")]
    pub metrics_cert_name: String,

    /// File of the certificate's key in that directory
    #[arg(long, value_name = "NAME", help_heading = SERVERS, default_value = "tls.key")]
    pub metrics_cert_key: String,

    /// Probe address, for /healthz and /readyz; 0 disables [default: :8081 in a pod, 127.0.0.1:8081 elsewhere]
    #[arg(long, value_name = "ADDRESS", help_heading = SERVERS, default_value_t = probe_address(is_pod()))]
    #[arg(hide_default_value = true)]
    pub health_probe_bind_address: BindAddress,

    /// Serve a page about controllers, queues and caches at /debug of the metrics server
    ///
    /// It needs --metrics-bind-address. With --metrics-secure, the page is for users who may get the URL /debug on the cluster
    /// and send a token, which browsers do not: curl -k -H "Authorization: Bearer $(kubectl create token NAME)". For a browser on
    /// the same machine: --metrics-bind-address=127.0.0.1:8080 --metrics-secure=false. Without TLS, addresses other than loopback
    /// are refused, and the URL must have an IP address or localhost as its host.
    #[arg(long, value_name = "BOOL", help_heading = SERVERS, num_args = 0..=1, require_equals = true)]
    #[arg(action = clap::ArgAction::Set, default_value_t = false, default_missing_value = "true", hide_possible_values = true)]
    pub enable_debug: bool,

    /// Enable leader election: only the lease holder is active
    #[arg(long, value_name = "BOOL", help_heading = ELECTION, num_args = 0..=1, require_equals = true)]
    #[arg(action = clap::ArgAction::Set, default_value_t = false, default_missing_value = "true", hide_possible_values = true)]
    pub leader_elect: bool,

    /// Name of the lease, the same for all replicas of this operator only; --leader-elect needs one
    #[arg(long, value_name = "NAME", help_heading = ELECTION, value_parser = lease)]
    pub leader_election_id: Option<String>,

    /// Namespace of the lease [default: that of the pod]
    #[arg(long, value_name = "NAME", help_heading = ELECTION, value_parser = some_namespace)]
    #[arg(default_value = "", hide_default_value = true)]
    pub leader_election_namespace: std::option::Option<String>,

    /// Time after the leader's last renewal until another replica may take over
    #[arg(long, value_name = "DURATION", help_heading = ELECTION, default_value = "15s", value_parser = duration::parse)]
    pub leader_election_lease_duration: Duration,

    /// Time without a renewal until the leader stops
    #[arg(long, value_name = "DURATION", help_heading = ELECTION, default_value = "10s", value_parser = duration::parse)]
    pub leader_election_renew_deadline: Duration,

    /// Time between two attempts to take or renew the lease
    #[arg(long, value_name = "DURATION", help_heading = ELECTION, default_value = "2s", value_parser = duration::parse)]
    pub leader_election_retry_period: Duration,

    /// Objects that a controller reconciles at the same time, unless it sets its own number
    #[arg(long, value_name = "NUMBER", help_heading = WORK, default_value = "1", value_parser = concurrency)]
    pub max_concurrent_reconciles: usize,

    /// Time limit for a graceful stop, with the last events and the release of the lease
    ///
    /// The last 5s of it, or its last quarter if that is less, are reserved for the last events and the release of the lease.
    /// Controllers that have not ended before that are aborted. 0 aborts everything at once. A pod's
    /// terminationGracePeriodSeconds must be longer than this.
    #[arg(long, value_name = "DURATION", help_heading = WORK, default_value = "30s", value_parser = duration::parse)]
    pub graceful_shutdown_timeout: Duration,

    /// Log level, and other levels for parts of the code, like info,kube=debug
    #[arg(long, value_name = "LEVEL", help_heading = LOGS, default_value = "info", value_parser = log_level)]
    pub log_level: String,

    /// Format of log lines: text or json
    #[arg(long, value_name = "FORMAT", help_heading = LOGS, default_value = "text")]
    pub log_format: Format,
}

/// The flags in the command line that do not have their default, by the names of their fields.
#[derive(Clone, Debug, Default)]
pub(super) struct TypedFlags(BTreeSet<String>);

impl TypedFlags {
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let is_typed = |id: &&clap::Id| {
            matches.value_source(id.as_str()).is_some_and(|from| from != ValueSource::DefaultValue)
        };
        Self(matches.ids().filter(is_typed).map(ToString::to_string).collect())
    }

    pub(super) fn contains(&self, flag: &str) -> bool {
        self.0.contains(flag)
    }
}

impl clap::FromArgMatches for TypedFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self::of(matches))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.extend(Self::of(matches).0);
        Ok(())
    }
}

impl clap::Args for TypedFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command
    }
}

/// Whether this process runs in a pod.
pub(super) fn is_pod() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some_and(|host| !host.is_empty())
}

/// Default address of the probes. In a pod the kubelet asks from outside; elsewhere loopback is enough.
pub(super) fn probe_address(is_pod: bool) -> BindAddress {
    if is_pod {
        BindAddress::all(PROBE_PORT)
    } else {
        SocketAddr::from((Ipv4Addr::LOCALHOST, PROBE_PORT)).into()
    }
}

/// A namespace, or an empty text, which a list leaves out.
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

/// A number of reconciles.
fn concurrency(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => {
            Err("a controller with 0 concurrent reconciles never reconciles: give at least 1".to_owned())
        }
        Ok(number) => Ok(number),
        Err(_) => Err("give a whole number, at least 1".to_owned()),
    }
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

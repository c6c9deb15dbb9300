//! Valid options with all defaults, and what every object takes from them: names, namespace, labels.

use std::collections::BTreeSet;

use bowline_machinery::{validate_dns1035_label, validate_dns1123_label, validate_dns1123_subdomain};
use bowline_runtime::OperatorDescription;
use serde_json::{Value, json};

use crate::{ManifestError, Manifests};

/// Port of the metrics server.
pub(crate) const METRICS_PORT: u16 = 8443;

/// Port of the probes.
pub(crate) const PROBE_PORT: u16 = 8081;

/// Maximum length of the name: a namespace and a service have at most 63 characters, with a suffix.
const NAME_LIMIT: usize = 63 - "-metrics".len();

/// Flags that further arguments may not set, with the reason.
const FIXED_FLAGS: [(&str, &str); 8] = [
    ("--leader-elect", "it is set already, because replicas need a leader"),
    ("--leader-election-id", "set the name of the lease as an option"),
    ("--leader-election-namespace", "the role for the lease is in the namespace of the operator"),
    ("--metrics-bind-address", "the service and the network policy are for port 8443, which is set already"),
    ("--metrics-secure", "the service monitor is for TLS, which is the default"),
    ("--health-probe-bind-address", "the probes are for port 8081, which is set already"),
    ("--namespace", "set the namespaces as an option, so that there are roles for them"),
    ("-n", "set the namespaces as an option, so that there are roles for them"),
];

/// Valid options.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) image: String,
    /// Namespaces to work in; empty for all.
    pub(crate) namespaces: BTreeSet<String>,
    pub(crate) replicas: u16,
    /// All arguments of the program.
    pub(crate) args: Vec<String>,
    pub(crate) lease: String,
}

impl Settings {
    pub(crate) fn new(options: &Manifests, description: &OperatorDescription) -> Result<Self, ManifestError> {
        let name = options.name.clone();
        if name.len() > NAME_LIMIT || !validate_dns1035_label(&name).is_empty() {
            return Err(ManifestError::Name { name, limit: NAME_LIMIT });
        }
        let namespace = options.namespace.clone().unwrap_or_else(|| format!("{name}-system"));
        let namespaces =
            if options.namespaces.is_empty() { &description.namespaces } else { &options.namespaces };
        let fixed = description.permissions.iter().filter_map(|permission| permission.namespace.as_ref());
        let mut all = std::iter::once(&namespace).chain(namespaces).chain(fixed);
        if let Some(wrong) = all.find(|name| !validate_dns1123_label(name).is_empty()) {
            return Err(ManifestError::Namespace { name: wrong.clone() });
        }
        let image = options.image.clone().unwrap_or_else(|| format!("{name}:latest"));
        if image.is_empty() || image.contains(char::is_whitespace) {
            return Err(ManifestError::Image { image });
        }
        let lease = options.lease.as_ref().or(description.lease.as_ref()).unwrap_or(&name).clone();
        if !validate_dns1123_subdomain(&lease).is_empty() {
            return Err(ManifestError::Lease { name: lease });
        }
        if options.replicas == 0 {
            return Err(ManifestError::NoReplicas);
        }
        if let Some(error) = options.args.iter().find_map(|argument| contradiction(argument)) {
            return Err(error);
        }
        let namespaces = namespaces.iter().cloned().collect();
        let args = args(&lease, &namespaces, &options.args);
        Ok(Self { name, namespace, image, namespaces, replicas: options.replicas, args, lease })
    }

    /// Whether the operator works in all namespaces.
    pub(crate) fn is_for_all_namespaces(&self) -> bool {
        self.namespaces.is_empty()
    }

    /// The name of an object: that of the operator with a suffix.
    pub(crate) fn named(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.name)
    }

    pub(crate) fn metrics_service(&self) -> String {
        self.named("metrics")
    }

    pub(crate) fn metrics_reader(&self) -> String {
        self.named("metrics-reader")
    }

    /// The labels that select the pods.
    pub(crate) fn selector(&self) -> Value {
        json!({"app.kubernetes.io/name": self.name})
    }

    pub(crate) fn labels(&self) -> Value {
        json!({"app.kubernetes.io/name": self.name, "app.kubernetes.io/managed-by": "bowline"})
    }

    /// The metadata of a cluster-scoped object.
    pub(crate) fn cluster_metadata(&self, name: &str) -> Value {
        json!({"name": name, "labels": self.labels()})
    }

    /// The metadata of an object in a namespace.
    pub(crate) fn metadata_in(&self, namespace: &str, name: &str) -> Value {
        json!({"name": name, "namespace": namespace, "labels": self.labels()})
    }

    /// The metadata of an object in the operator's namespace.
    pub(crate) fn metadata(&self, name: &str) -> Value {
        self.metadata_in(&self.namespace, name)
    }
}

/// The arguments of the program.
fn args(lease: &str, namespaces: &BTreeSet<String>, further: &[String]) -> Vec<String> {
    let mut args = vec![
        "--leader-elect".to_owned(),
        format!("--leader-election-id={lease}"),
        format!("--metrics-bind-address=:{METRICS_PORT}"),
        format!("--health-probe-bind-address=:{PROBE_PORT}"),
    ];
    if !namespaces.is_empty() {
        let namespaces: Vec<_> = namespaces.iter().map(String::as_str).collect();
        args.push(format!("--namespace={}", namespaces.join(",")));
    }
    args.extend(further.iter().cloned());
    args
}

/// The error if an argument sets a flag that the other manifests depend on. Most of them may be written once only.
fn contradiction(argument: &str) -> Option<ManifestError> {
    let name = argument.split('=').next().unwrap_or_default();
    // The value of a short flag may follow without `=`.
    let is_same = |flag: &str| name == flag || !flag.starts_with("--") && argument.starts_with(flag);
    let (_, remedy) = FIXED_FLAGS.into_iter().find(|(flag, _)| is_same(flag))?;
    Some(ManifestError::Argument { argument: argument.to_owned(), remedy })
}

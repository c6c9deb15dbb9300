//! From flags to a manager.

use std::io;
use std::path::Path;

use bowline_cache::{CacheOptions, Settings};
use bowline_clock::Clock;
use bowline_runtime::health::HealthServer;
use bowline_runtime::leader_election::{ElectionError, LeaderElection};
use bowline_runtime::server::{MetricsServer, Tls};
use bowline_runtime::transport::{self, ConfigSearch, TransportError, TransportOptions};
use bowline_runtime::{Manager, ManagerBuilder, ManagerError, Signals};
use kube::Config;

use super::ManagerFlags;
use crate::telemetry::{self, Telemetry, TelemetryError};

/// Where a pod finds out in which namespace it is.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Why there is no manager.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArgsError {
    /// The flags do not fit together. [`args`](super::args()) says so before, and ends the program.
    #[error("{problem}")]
    Flags {
        /// What does not, by the names of the flags.
        problem: String,
    },
    /// Logs cannot be set up.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// Signals cannot be listened to.
    #[error("cannot listen to signals")]
    Signals(#[source] io::Error),
    /// There is no cluster.
    #[error(transparent)]
    Cluster(#[from] TransportError),
    /// Nobody says where the lease of the leader election is.
    #[error(
        "leader election needs a namespace for its lease, and this does not run in a pod that has one: set \
         --leader-election-namespace"
    )]
    NoNamespace,
    /// The manager cannot be made.
    #[error(transparent)]
    Manager(#[from] ManagerError),
}

impl ManagerFlags {
    /// Sets up logs, listens to signals, looks for the cluster, and makes the manager that the flags ask for. Once in a
    /// process.
    ///
    /// A program that has set up a `tracing` subscriber before keeps it: its own logs are as it wants them, `--log-level` and
    /// `--log-format` mean nothing then, and traces are not sent unless it does so.
    ///
    /// # Errors
    /// When the flags do not fit together, there is no configuration of a cluster, or the lease has no namespace.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn manager(&self) -> Result<Manager, ArgsError> {
        Ok(self.builder().await?.build()?)
    }

    /// As [`manager`](Self::manager), for a program that has options to add. Its namespaces are options of the cluster's
    /// cache: a program that sets those sets its namespaces too.
    ///
    /// # Errors
    /// As [`manager`](Self::manager).
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn builder(&self) -> Result<ManagerBuilder, ArgsError> {
        if let Some(problem) = self.contradiction() {
            return Err(ArgsError::Flags { problem });
        }
        let telemetry = self.telemetry()?;
        let signals = Signals::listen().map_err(ArgsError::Signals)?;
        let config = self.config_search().find().await?;
        let scope = Clock::real().scope("operator");
        let metrics = self.metrics_server(&config)?;
        let namespaces: Vec<_> = self.namespaces().map(|name| (name.clone(), Settings::new())).collect();
        let mut builder = Manager::builder(&scope.spawner(), config)
            .cluster(|cluster| cluster.cache(CacheOptions::new().namespaces(namespaces)))
            .concurrency(self.max_concurrent_reconciles)
            .graceful_shutdown(self.graceful_shutdown_timeout)
            .signals(signals)
            .metrics_server(metrics)
            .debug(self.enable_debug)
            .health_server(HealthServer::at(self.health_probe_bind_address.clone()))
            .keep(scope)
            .keep(telemetry);
        if self.leader_elect {
            let namespace = match &self.leader_election_namespace {
                Some(namespace) => namespace.clone(),
                None => pod_namespace(Path::new(POD_NAMESPACE)).ok_or(ArgsError::NoNamespace)?,
            };
            builder = builder.leader_election(self.election(namespace, self.lease()));
        }
        Ok(builder)
    }

    /// Whether somebody says which cluster is meant: one of the flags, or the pod that this runs in. For programs that do
    /// something else where nobody does.
    #[must_use]
    pub fn names_cluster(&self) -> bool {
        let is_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some_and(|host| !host.is_empty());
        is_pod || self.kubeconfig.is_some() || self.context.is_some() || self.master.is_some()
    }

    /// Logs, unless the program has some already.
    fn telemetry(&self) -> Result<Option<Telemetry>, TelemetryError> {
        if telemetry::is_set() {
            tracing::debug!("the program has logs of its own: --log-level and --log-format change nothing");
            return Ok(None);
        }
        let options = telemetry::Options::new().level(&self.log_level).format(self.log_format);
        telemetry::init(&options).map(Some)
    }

    /// The namespaces, without those that are empty.
    fn namespaces(&self) -> impl Iterator<Item = &String> {
        self.namespace.iter().filter(|name| !name.is_empty())
    }

    fn config_search(&self) -> ConfigSearch {
        let mut search = ConfigSearch::new();
        if let Some(path) = self.kubeconfig.as_ref().filter(|path| !path.as_os_str().is_empty()) {
            search = search.kubeconfig(path);
        }
        if let Some(name) = &self.context {
            search = search.context(name);
        }
        if let Some(server) = &self.master {
            search = search.server(server.clone());
        }
        search
    }

    fn metrics_server(&self, config: &Config) -> Result<MetricsServer, TransportError> {
        let server = MetricsServer::at(self.metrics_bind_address.clone());
        if !self.metrics_secure {
            return Ok(server);
        }
        let tls = match &self.metrics_cert_path {
            Some(folder) => Tls::folder(folder).file_names(&self.metrics_cert_name, &self.metrics_cert_key),
            None => Tls::self_signed(),
        };
        // A client of its own: scrapes do not wait for what controllers ask.
        let client = transport::client(config, &TransportOptions::new(&Clock::real()))?;
        Ok(server.tls(tls).authenticated(client))
    }

    /// What the lease is called; empty where nobody says so.
    fn lease(&self) -> &str {
        self.leader_election_id.as_deref().unwrap_or_default()
    }

    fn election(&self, namespace: String, lease: &str) -> LeaderElection {
        LeaderElection::new(namespace, lease)
            .lease_duration(self.leader_election_lease_duration)
            .renew_deadline(self.leader_election_renew_deadline)
            .retry_period(self.leader_election_retry_period)
    }

    /// What does not fit together, by the names of the flags.
    pub(super) fn contradiction(&self) -> Option<String> {
        if self.enable_debug && self.metrics_bind_address.is_off() {
            let problem = "--enable-debug adds a page to the metrics server, and there is none: set --metrics-bind-address, for \
                           example to 127.0.0.1:8080";
            return Some(problem.to_owned());
        }
        if !self.leader_elect {
            return None;
        }
        if self.lease().is_empty() {
            let problem = "--leader-elect needs --leader-election-id, the name of the lease: all replicas of this operator, of \
                           whatever version, must have the same, and no other operator in the namespace may have it";
            return Some(problem.to_owned());
        }
        // Where the lease is comes later, and makes no difference here.
        let election = self.election("any".to_owned(), self.lease());
        Some(match election.validate().err()? {
            ElectionError::LeaseNotLongerThanRenewal { lease, renew, .. } => format!(
                "--leader-election-lease-duration ({lease:?}) must be longer than --leader-election-renew-deadline ({renew:?})"
            ),
            ElectionError::RenewalNotLongerThanRetries { renew, retry, .. } => format!(
                "--leader-election-renew-deadline ({renew:?}) must be longer than 1.2 times \
                 --leader-election-retry-period ({retry:?})"
            ),
            ElectionError::TooShort { lease, .. } => format!(
                "--leader-election-lease-duration ({lease:?}) must be at least 1s, and --leader-election-retry-period \
                 above zero"
            ),
            other => other.to_string(),
        })
    }
}

/// The namespace in a file, if there is one.
fn pod_namespace(path: &Path) -> Option<String> {
    let namespace = std::fs::read_to_string(path).ok()?.trim().to_owned();
    (!namespace.is_empty()).then_some(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_knows_its_namespace_and_nobody_else_does() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("namespace");
        assert_eq!(pod_namespace(&file), None);
        std::fs::write(&file, "operators\n").unwrap();
        assert_eq!(pod_namespace(&file).as_deref(), Some("operators"));
        std::fs::write(&file, "\n").unwrap();
        assert_eq!(pod_namespace(&file), None);
    }
}

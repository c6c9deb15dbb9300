//! From flags to a manager.

use std::io;
use std::path::Path;

use bowline_cache::{CacheOptions, SelectionSettings};
use bowline_clock::Clock;
use bowline_runtime::health::HealthServer;
use bowline_runtime::leader_election::{ElectionError, LeaderElectionConfig};
use bowline_runtime::server::{MetricsServer, Tls};
use bowline_runtime::transport::{self, TransportError, TransportOptions};
use bowline_runtime::{ConnectionConfig, Manager, ManagerBuilder, ManagerError, Signals};
use kube::Config;

use super::ManagerFlags;
use super::cluster::{ClusterChoice, Located, PlaneContents};
use crate::telemetry::{self, Telemetry, TelemetryError};

/// The file with the namespace of a pod.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Why there is no manager for these flags.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArgsError {
    /// The flags contradict each other. [`args`](super::args()) reports this before, and ends the program.
    #[error("{problem}")]
    Flags {
        /// The contradiction, with the names of the flags.
        problem: String,
    },
    /// No cluster is named, and this build has no plane.
    #[error(
        "no cluster is named: add --kubeconfig (alone for $KUBECONFIG or ~/.kube/config, or with a path), --context or --master, \
         or run in a pod"
    )]
    NoCluster,
    /// Logs cannot be set up.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// Signals cannot be received.
    #[error("cannot listen to signals")]
    Signals(#[source] io::Error),
    /// The configuration of the cluster cannot be used.
    #[error(transparent)]
    Cluster(#[from] TransportError),
    /// The plane cannot start.
    #[cfg(feature = "plane")]
    #[error(transparent)]
    Plane(#[from] crate::plane::PlaneError),
    /// A file of `--apply` cannot be used.
    #[cfg(feature = "plane")]
    #[error(transparent)]
    Apply(#[from] super::ObjectError),
    /// The lease of the leader election has no namespace.
    #[error(
        "leader election needs a namespace for its lease, and this process does not run in a pod that has one: set \
         --leader-election-namespace"
    )]
    NoNamespace,
    /// The manager cannot be built.
    #[error(transparent)]
    Manager(#[from] ManagerError),
}

impl ManagerFlags {
    /// Builds the manager: sets up logs and signals, finds the cluster or starts a plane, and applies the flags. Call it once in
    /// a process.
    ///
    /// A program that has set up a `tracing` subscriber before keeps it. Then `--log-level` and `--log-format` have no effect, and
    /// the program exports traces itself.
    ///
    /// # Errors
    /// When the flags contradict each other, no cluster is named and this build has no plane, the configuration of the cluster
    /// cannot be used, a file of `--apply` has a mistake, or the lease has no namespace.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn manager(&self) -> Result<Manager, ArgsError> {
        Ok(self.builder().await?.build()?)
    }

    /// As [`manager`](Self::manager), for a program that adds options. The flag `--namespace` is an option of the cluster's
    /// cache: a program that sets cache options sets its namespaces too.
    ///
    /// # Errors
    /// As [`manager`](Self::manager).
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn builder(&self) -> Result<ManagerBuilder, ArgsError> {
        self.builder_with(&PlaneContents::default()).await
    }

    pub(super) async fn builder_with(&self, contents: &PlaneContents) -> Result<ManagerBuilder, ArgsError> {
        if let Some(problem) = self.contradiction() {
            return Err(ArgsError::Flags { problem });
        }
        let choice = self.choice().ok_or(ArgsError::NoCluster)?;
        self.adapted(choice).assemble(choice, contents).await
    }

    async fn assemble(
        &self,
        choice: ClusterChoice,
        contents: &PlaneContents,
    ) -> Result<ManagerBuilder, ArgsError> {
        let telemetry = self.telemetry()?;
        let signals = Signals::listen().map_err(ArgsError::Signals)?;
        let Located { config, extend, .. } = self.locate(choice, contents).await?;
        let scope = Clock::real().scope("operator");
        let options = TransportOptions::new(&Clock::real());
        let metrics = self.metrics_server(&config, &options)?;
        let namespaces: Vec<_> =
            self.namespaces().map(|name| (name.clone(), SelectionSettings::new())).collect();
        let mut builder = Manager::builder(&scope.spawner(), ConnectionConfig::with_options(config, options))
            .cluster(|cluster| cluster.cache(CacheOptions::new().namespaces(namespaces)))
            .concurrency(self.max_concurrent_reconciles)
            .shutdown_timeout(self.graceful_shutdown_timeout)
            .signals(signals)
            .metrics_server(metrics)
            .debug(self.enable_debug)
            .health_server(HealthServer::new(self.health_probe_bind_address.clone()))
            .keep(scope)
            .keep(telemetry);
        if self.leader_elect {
            let namespace = match &self.leader_election_namespace {
                Some(namespace) => namespace.clone(),
                None => pod_namespace(Path::new(POD_NAMESPACE)).ok_or(ArgsError::NoNamespace)?,
            };
            builder = builder.leader_election(self.election(namespace, self.lease()));
        }
        Ok(match extend {
            Some(extend) => extend(builder),
            None => builder,
        })
    }

    /// Sets up logs, unless the program has done so.
    fn telemetry(&self) -> Result<Option<Telemetry>, TelemetryError> {
        if telemetry::is_set() {
            tracing::debug!("the program has logs of its own: --log-level and --log-format have no effect");
            return Ok(None);
        }
        let options = telemetry::Options::new().level(&self.log_level).format(self.log_format);
        telemetry::init(&options).map(Some)
    }

    /// The namespaces, without those that are empty.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &String> {
        self.namespace.iter().filter(|name| !name.is_empty())
    }

    fn metrics_server(
        &self,
        config: &Config,
        options: &TransportOptions,
    ) -> Result<MetricsServer, TransportError> {
        let server = MetricsServer::new(self.metrics_bind_address.clone());
        if !self.metrics_secure {
            return Ok(server);
        }
        let tls = if let Some(folder) = &self.metrics_cert_path {
            Tls::from_directory(folder).file_names(&self.metrics_cert_name, &self.metrics_cert_key)
        } else {
            if !self.metrics_bind_address.is_off() {
                tracing::info!(
                    "metrics are served with a self-signed certificate, which scrapers cannot verify; to use your own, \
                     set --metrics-cert-path"
                );
            }
            Tls::self_signed()
        };
        // A client of its own: scrapes do not wait for requests of controllers. It shares the options, so that a credential
        // plugin runs once for all.
        let client = transport::client(config, options)?;
        Ok(server.tls(tls).authenticated(client))
    }

    /// Name of the lease; empty without one.
    fn lease(&self) -> &str {
        self.leader_election_id.as_deref().unwrap_or_default()
    }

    fn election(&self, namespace: String, lease: &str) -> LeaderElectionConfig {
        LeaderElectionConfig::new(namespace, lease)
            .lease_duration(self.leader_election_lease_duration)
            .renew_deadline(self.leader_election_renew_deadline)
            .retry_period(self.leader_election_retry_period)
    }

    /// A contradiction between flags, with their names.
    pub(super) fn contradiction(&self) -> Option<String> {
        let choice = self.choice();
        if let Some(problem) = self.contradiction_about_plane(choice) {
            return Some(problem);
        }
        match choice {
            Some(choice) => self.adapted(choice).contradiction_of_options(),
            None => self.contradiction_of_options(),
        }
    }

    #[cfg(feature = "plane")]
    fn contradiction_about_plane(&self, choice: Option<ClusterChoice>) -> Option<String> {
        if let Some(flag) = self.cluster_flag().filter(|_| self.plane) {
            return Some(format!(
                "--plane runs the operator on an API server inside this process, and {flag} on a cluster: remove one of the two"
            ));
        }
        if choice != Some(ClusterChoice::Plane) {
            let reason = self
                .cluster_flag()
                .map_or("this process runs in a pod".to_owned(), |flag| format!("{flag} names one"));
            let problem = format!(
                "--apply creates objects on an API server inside this process, not on a cluster, and {reason}: remove --apply, and \
                 use kubectl apply -f FILE"
            );
            return self.files().next().is_some().then_some(problem);
        }
        let is_secure = self.typed.contains("metrics_secure") && self.metrics_secure;
        is_secure.then(|| {
            "--metrics-secure needs a cluster that authenticates tokens, and the API server inside this process does not: remove \
             it, or name a cluster with --kubeconfig"
                .to_owned()
        })
    }

    #[cfg(not(feature = "plane"))]
    #[expect(clippy::unused_self, reason = "there are no flags of a plane")]
    fn contradiction_about_plane(&self, _: Option<ClusterChoice>) -> Option<String> {
        None
    }

    fn contradiction_of_options(&self) -> Option<String> {
        if self.enable_debug && self.metrics_bind_address.is_off() {
            let problem = "--enable-debug adds a page to the metrics server, and there is none: set --metrics-bind-address, for \
                           example to 127.0.0.1:8080";
            return Some(problem.to_owned());
        }
        if self.enable_debug && !self.metrics_secure && self.metrics_bind_address.is_loopback() == Some(false)
        {
            return Some(format!(
                "--enable-debug shows names and errors of objects, and without TLS everyone who reaches {} could read them: \
                 set --metrics-bind-address to 127.0.0.1:PORT, or run on a cluster with --metrics-secure",
                self.metrics_bind_address
            ));
        }
        if !self.leader_elect {
            return None;
        }
        if self.lease().is_empty() {
            let problem = "--leader-elect needs --leader-election-id, the name of the lease: all replicas and versions of this \
                           operator must have the same, and no other operator in the namespace may have it";
            return Some(problem.to_owned());
        }
        // The namespace does not matter here.
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
    fn the_namespace_comes_from_the_file_of_the_pod() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("namespace");
        assert_eq!(pod_namespace(&file), None);
        std::fs::write(&file, "operators\n").unwrap();
        assert_eq!(pod_namespace(&file).as_deref(), Some("operators"));
        std::fs::write(&file, "\n").unwrap();
        assert_eq!(pod_namespace(&file), None);
    }
}

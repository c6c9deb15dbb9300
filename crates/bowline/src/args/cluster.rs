//! The cluster that the flags name, or the plane instead of one.

use bowline_runtime::ManagerBuilder;
use bowline_runtime::server::BindAddress;
use bowline_runtime::transport::{ConfigOrigin, ConfigSearch, TransportError};
use http::Uri;
use kube::Config;

use super::assembly::ArgsError;
use super::flags::{ManagerFlags, is_pod};

/// The API server that an operator works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClusterChoice {
    /// The cluster of `--kubeconfig`, `--context` or `--master`.
    Named,
    /// The cluster of the pod that this process runs in.
    InCluster,
    /// An API server inside this process.
    Plane,
}

/// How to reach the chosen API server.
pub(super) struct Located {
    pub(super) config: Config,
    /// For people: `context NAME`, `in-cluster`, `plane` or `--master`.
    pub(super) origin: String,
    /// Further options of the manager.
    pub(super) extend: Option<Box<dyn FnOnce(ManagerBuilder) -> ManagerBuilder + Send>>,
}

/// The part of a program that belongs to its plane: see [`Arguments::sample`](super::Arguments::sample).
#[derive(Clone, Debug, Default)]
pub(super) struct PlaneContents {
    pub(super) samples: Vec<String>,
    pub(super) hints: Vec<String>,
}

impl ManagerFlags {
    /// Whether a cluster is named: by `--kubeconfig`, `--context` or `--master`, or by running in a pod without `--plane`.
    /// `$KUBECONFIG` and `~/.kube/config` alone name none.
    #[must_use]
    pub fn names_cluster(&self) -> bool {
        matches!(self.choice(), Some(ClusterChoice::Named | ClusterChoice::InCluster))
    }

    /// The API server to work on; none if the flags name none and this build has no plane.
    pub(super) fn choice(&self) -> Option<ClusterChoice> {
        self.choice_in(is_pod(), cfg!(feature = "plane"))
    }

    pub(super) fn choice_in(&self, is_pod: bool, has_plane: bool) -> Option<ClusterChoice> {
        if self.asks_for_plane() {
            Some(ClusterChoice::Plane)
        } else if self.cluster_flag().is_some() {
            Some(ClusterChoice::Named)
        } else if is_pod {
            Some(ClusterChoice::InCluster)
        } else {
            has_plane.then_some(ClusterChoice::Plane)
        }
    }

    /// The flag that names a cluster.
    pub(super) fn cluster_flag(&self) -> Option<&'static str> {
        let flags = [
            ("--kubeconfig", self.kubeconfig.is_some()),
            ("--context", self.context.is_some()),
            ("--master", self.master.is_some()),
        ];
        flags.into_iter().find_map(|(flag, is_set)| is_set.then_some(flag))
    }

    #[cfg(feature = "plane")]
    fn asks_for_plane(&self) -> bool {
        self.plane
    }

    #[cfg(not(feature = "plane"))]
    #[expect(clippy::unused_self, reason = "the flag does not exist")]
    fn asks_for_plane(&self) -> bool {
        false
    }

    /// The flags with the defaults of a plane: no TLS for metrics, no probes, the lease in the namespace `default`. Flags that
    /// were typed stay.
    pub(super) fn adapted(&self, choice: ClusterChoice) -> Self {
        let mut flags = self.clone();
        if choice == ClusterChoice::Plane {
            // The server of a plane answers no TokenReview.
            flags.metrics_secure &= self.typed.contains("metrics_secure");
            // No kubelet asks, and another operator may run on the same machine.
            if !self.typed.contains("health_probe_bind_address") {
                flags.health_probe_bind_address = BindAddress::off();
            }
            flags.leader_election_namespace.get_or_insert_with(|| "default".to_owned());
        }
        flags
    }

    /// Finds or starts the API server, and logs which one it is.
    pub(super) async fn locate(
        &self,
        choice: ClusterChoice,
        contents: &PlaneContents,
    ) -> Result<Located, ArgsError> {
        let located = match choice {
            ClusterChoice::Named => {
                let (config, origin) = self.config_search(is_pod()).find_with_origin().await?;
                Located { config, origin: name(&origin), extend: None }
            }
            ClusterChoice::InCluster => {
                // Not the search: in a pod, too, `$KUBECONFIG` alone does not count.
                let config = Config::incluster().map_err(TransportError::from)?;
                Located { config, origin: name(&ConfigOrigin::Pod), extend: None }
            }
            ClusterChoice::Plane => self.start_plane(contents).await?,
        };
        let Located { config, origin, .. } = &located;
        tracing::info!(server = public(&config.cluster_url), %origin, "cluster selected");
        Ok(located)
    }

    #[cfg(not(feature = "plane"))]
    #[expect(clippy::unused_async, reason = "it waits where there is a plane")]
    async fn start_plane(&self, _: &PlaneContents) -> Result<Located, ArgsError> {
        Err(ArgsError::NoCluster)
    }

    fn config_search(&self, is_pod: bool) -> ConfigSearch {
        let mut search = ConfigSearch::new();
        match &self.kubeconfig {
            Some(path) if !path.as_os_str().is_empty() => search = search.kubeconfig(path),
            // The flag alone means a file, also in a pod.
            Some(_) if is_pod => search = search.without_pod(),
            _ => {}
        }
        if let Some(name) = &self.context {
            search = search.context(name);
        }
        if let Some(server) = &self.master {
            search = search.server(server.clone());
        }
        search
    }
}

fn name(origin: &ConfigOrigin) -> String {
    match origin {
        ConfigOrigin::Context(name) => format!("context {name}"),
        ConfigOrigin::Pod => "in-cluster".to_owned(),
        _ => "--master".to_owned(),
    }
}

/// A server's address without user, password and query.
fn public(address: &Uri) -> String {
    let scheme = address.scheme_str().unwrap_or("https");
    let host = address.host().unwrap_or_default();
    let port = address.port_u16().map_or_else(String::new, |port| format!(":{port}"));
    format!("{scheme}://{host}{port}{}", address.path().trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_in_the_log_has_no_credentials() {
        for (address, logged) in [
            (
                "https://user:secret@api.example.com:6443/base/?token=secret",
                "https://api.example.com:6443/base",
            ),
            ("https://127.0.0.1:6443/", "https://127.0.0.1:6443"),
            ("http://[::1]:8080", "http://[::1]:8080"),
        ] {
            assert_eq!(public(&address.parse().unwrap()), logged);
        }
    }
}

//! The API server to talk to: one inside this process, or that of a cluster.

use std::path::PathBuf;

use bowline::clock::Clock;
use bowline::runtime::Result;
use bowline::runtime::transport::{self, TransportOptions};
use kube::Client;

/// An API server, until it is closed.
pub(crate) struct Cluster {
    client: Client,
    #[cfg(feature = "plane")]
    plane: Option<bowline::plane::Plane>,
}

impl Cluster {
    /// The cluster of `--kubeconfig`, or a plane without this flag.
    pub(crate) async fn connect(kubeconfig: Option<&Option<PathBuf>>, clock: &Clock) -> Result<Self> {
        let Some(path) = kubeconfig else { return Self::plane().await };
        let config = transport::config(path.as_deref()).await?;
        Ok(Self {
            client: transport::client(&config, &TransportOptions::new(clock))?,
            #[cfg(feature = "plane")]
            plane: None,
        })
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }
}

#[cfg(feature = "plane")]
impl Cluster {
    async fn plane() -> Result<Self> {
        let plane = bowline::plane::Plane::start("pod-printer").await?;
        Ok(Self { client: plane.kube_client(), plane: Some(plane) })
    }

    /// The kubeconfig of a plane.
    pub(crate) fn kubeconfig(&self) -> Option<String> {
        self.plane.as_ref().map(|plane| plane.kubeconfig().display().to_string())
    }

    pub(crate) async fn close(self) {
        if let Some(plane) = self.plane {
            plane.stop().await;
        }
    }
}

#[cfg(not(feature = "plane"))]
#[expect(clippy::unused_async, clippy::unused_self, reason = "as with a plane")]
impl Cluster {
    async fn plane() -> Result<Self> {
        Err(bowline::runtime::Error::message("no cluster is named: add --kubeconfig, with or without a path"))
    }

    pub(crate) fn kubeconfig(&self) -> Option<String> {
        None
    }

    pub(crate) async fn close(self) {}
}

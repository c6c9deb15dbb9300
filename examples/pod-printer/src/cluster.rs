//! The API server to talk to: one inside this process, or a real one.

use std::error::Error;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_apiserver::{ApiServer, ServeOptions, Serving};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::net::TcpListener;

/// How long requests that are being answered may take when the server is stopped.
const PATIENCE: Duration = Duration::from_secs(5);

/// A client of the cluster that a kubeconfig names; without one, of the cluster that kubectl would take.
pub(crate) async fn real(kubeconfig: Option<&Path>) -> Result<Client, Box<dyn Error>> {
    let config = match kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
        }
        None => Config::infer().await?,
    };
    Ok(Client::try_from(config)?)
}

/// The server inside this process, on a socket for as long as this is there.
pub(crate) struct Socket {
    serving: Serving,
    kubeconfig: PathBuf,
}

impl Socket {
    /// Puts a server on a free port of the loopback interface, and writes a kubeconfig that only this user can read.
    pub(crate) async fn open(server: &ApiServer) -> Result<Self, Box<dyn Error>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let serving = server.serve(listener, ServeOptions::default())?;
        let name = format!("pod-printer-{}.kubeconfig", serving.address().port());
        let kubeconfig = std::env::temp_dir().join(name);
        serving.kubeconfig().write(&kubeconfig)?;
        Ok(Self { serving, kubeconfig })
    }

    /// Where the kubeconfig is.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Takes the server off the socket.
    pub(crate) async fn close(self) {
        self.serving.shutdown(PATIENCE).await;
        // Somebody else may have removed it already.
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

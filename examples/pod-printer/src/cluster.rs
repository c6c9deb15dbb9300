//! The API server to talk to: one inside this process, or a real one.

use std::error::Error;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_apiserver::{ApiServer, ServeOptions, Serving};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::net::TcpListener;

use crate::arguments::Arguments;

/// How long requests that are being answered may take when the server is stopped.
const PATIENCE: Duration = Duration::from_secs(5);

/// An API server, for as long as this is there.
pub(crate) struct Cluster {
    client: Client,
    /// Only of a server inside this process that others may talk to.
    socket: Option<Socket>,
}

struct Socket {
    serving: Serving,
    kubeconfig: PathBuf,
}

impl Cluster {
    /// The one that the arguments ask for.
    pub(crate) async fn connect(arguments: &Arguments) -> Result<Self, Box<dyn Error>> {
        if let Some(kubeconfig) = &arguments.kubeconfig {
            let config = match kubeconfig {
                Some(path) => {
                    let kubeconfig = Kubeconfig::read_from(path)?;
                    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
                }
                None => Config::infer().await?,
            };
            return Ok(Self { client: Client::try_from(config)?, socket: None });
        }
        let server = ApiServer::builder().build()?;
        let socket = if arguments.watch { Some(Socket::open(&server).await?) } else { None };
        Ok(Self { client: Client::new(server, "default"), socket })
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// By which others find it, if they can.
    pub(crate) fn kubeconfig(&self) -> Option<&Path> {
        self.socket.as_ref().map(|socket| socket.kubeconfig.as_path())
    }

    pub(crate) async fn close(self) {
        if let Some(Socket { serving, kubeconfig }) = self.socket {
            serving.shutdown(PATIENCE).await;
            // Somebody else may have removed it already.
            let _ = std::fs::remove_file(kubeconfig);
        }
    }
}

impl Socket {
    /// A free port of the loopback interface, and a kubeconfig that only this user can read.
    async fn open(server: &ApiServer) -> Result<Self, Box<dyn Error>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let serving = server.serve(listener, ServeOptions::default())?;
        let name = format!("pod-printer-{}.kubeconfig", serving.address().port());
        let kubeconfig = std::env::temp_dir().join(name);
        serving.kubeconfig().write(&kubeconfig)?;
        Ok(Self { serving, kubeconfig })
    }
}

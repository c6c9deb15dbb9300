//! The server that replicas fight over, and its record.

use std::net::SocketAddr;
use std::path::PathBuf;

use bowline_apiserver::{ApiServer, ServeOptions, Serving};
use bowline_clock::{Clock, Rng};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::PostParams;
use kube::{Api, Client};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::record::{Moment, Record, Story};
use crate::replica::{WORKERS, object};

/// A server on a socket, for as long as this is there.
pub(crate) struct Plane {
    pub(crate) clock: Clock,
    pub(crate) client: Client,
    record: Record,
    serving: Serving,
    directory: TempDir,
}

impl Plane {
    pub(crate) async fn start(rng: &Rng) -> Self {
        let clock = Clock::real();
        let record = Record::new(&clock, rng);
        let server =
            ApiServer::builder().clock(clock.clone()).hook(record.clone()).build().expect("a server");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
        let serving = server.serve(listener, ServeOptions::default()).expect("it is on the socket");
        let directory = tempfile::tempdir().expect("there is a place for files");
        serving.kubeconfig().write(directory.path().join("kubeconfig")).expect("it is written");
        Self { client: Client::new(server, "default"), clock, record, serving, directory }
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    pub(crate) fn log(&self, identity: &str) -> PathBuf {
        self.directory.path().join(format!("{identity}.log"))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.serving.address()
    }

    /// On the clock of the record.
    pub(crate) fn now(&self) -> Moment {
        self.record.now()
    }

    /// Looks at what happened in a namespace so far.
    pub(crate) fn read<T>(&self, namespace: &str, look: impl FnOnce(&Story) -> T) -> T {
        self.record.read(namespace, look)
    }

    /// A namespace with an object for each worker.
    pub(crate) async fn prepare(&self, namespace: &str) -> kube::Result<()> {
        let mut made = Namespace::default();
        made.metadata.name = Some(namespace.to_owned());
        Api::all(self.client.clone()).create(&PostParams::default(), &made).await?;
        for worker in 0..WORKERS {
            let mut map = ConfigMap::default();
            map.metadata.name = Some(object(worker));
            self.maps(namespace).create(&PostParams::default(), &map).await?;
        }
        Ok(())
    }

    pub(crate) fn maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

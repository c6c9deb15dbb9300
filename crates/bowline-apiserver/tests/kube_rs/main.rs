//! Unmodified kube-rs programs: they work with this server as with any cluster, in process and over a
//! socket.

mod controller;
mod crud;
mod watching;

use std::time::Duration;

use bowline_apiserver::{ApiServer, ServeOptions, ServerHandle};
use bowline_clock::Clock;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

/// How long anything may take. Nothing takes as long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server, and a client of it.
struct Cluster {
    client: Client,
    _serving: Option<ServerHandle>,
}

/// The same server twice: as a service, and on a socket.
async fn clusters() -> [Cluster; 2] {
    let in_process = ApiServer::builder().build().expect("a server can be built");
    let in_process = Cluster { client: Client::new(in_process, "default"), _serving: None };
    let server = ApiServer::builder().build().expect("a server can be built");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
    let serving = server.serve(listener, ServeOptions::default()).expect("it can be served");
    let kubeconfig = Kubeconfig::from_yaml(&serving.kubeconfig().to_yaml()).expect("it is a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("the kubeconfig is right");
    let client = Client::try_from(config).expect("a client can be made");
    [in_process, Cluster { client, _serving: Some(serving) }]
}

/// Waits for something, but not for ever.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    Clock::real().timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} does not come"))
}

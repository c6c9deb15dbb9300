//! A server on a free port of the loopback interface, and ways to talk to it.

use std::sync::Arc;
use std::time::Duration;

use bowline_apiserver::{ApiServer, ServeOptions, ServerHandle};
use bowline_clock::{Clock, Elapsed};
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// How long anything may take. Nothing takes as long unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for something, but not for ever.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> Result<T, Elapsed> {
    Clock::real().timeout(PATIENCE, future).await
}

pub(crate) async fn plane(options: ServeOptions) -> ServerHandle {
    serving(&ApiServer::builder().build().expect("a server can be built"), options).await
}

pub(crate) async fn serving(server: &ApiServer, options: ServeOptions) -> ServerHandle {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
    server.serve(listener, options).expect("it can be served")
}

/// A client that has what a file says.
pub(crate) async fn client(kubeconfig: &str, context: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).expect("it is a kubeconfig");
    let options = KubeConfigOptions { context: Some(context.to_owned()), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("the kubeconfig is right");
    Client::try_from(config).expect("a client can be made")
}

/// A connection that has nothing but the authority's certificate.
pub(crate) async fn connect(serving: &ServerHandle) -> TlsStream<TcpStream> {
    connect_with(serving, &[]).await
}

/// Likewise, for one of these protocols.
pub(crate) async fn connect_with(serving: &ServerHandle, protocols: &[&[u8]]) -> TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    let authority = serving.kubeconfig().certificate_authority().as_bytes();
    roots.add(CertificateDer::from_pem_slice(authority).expect("it is PEM")).expect("it is a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring knows them")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let stream = TcpStream::connect(serving.address()).await.expect("the server takes connections");
    let name = ServerName::try_from("kubernetes.default.svc").expect("it is a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("the certificate is right")
}

/// The code and the body of the answer to a `GET` with HTTP/1.1 and these headers.
pub(crate) async fn get(serving: &ServerHandle, path: &str, headers: &str) -> (u16, Value) {
    let mut stream = connect(serving).await;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.expect("the server listens");
    let mut answer = Vec::new();
    // A server that closes at once is as good as one that says so first.
    let _ = stream.read_to_end(&mut answer).await;
    let text = String::from_utf8(answer).expect("it is text");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?} has no body"));
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("there is a code");
    (code, serde_json::from_str(body).unwrap_or_else(|_| body.into()))
}

//! TLS: certificates from a directory, renewed while the server runs, and self-signed certificates.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bowline_runtime::Metrics;
use bowline_runtime::server::{MetricsServer, Server, ServerError, Tls, TlsError};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme, SupportedProtocolVersion};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::exposition;
use crate::world::{Answer, PATIENCE, Running, local, read_to_end, scope};

const OFTEN: Duration = Duration::from_millis(20);

/// A client that accepts and records any certificate.
#[derive(Debug)]
struct Trusting(CryptoProvider);

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

pub(crate) async fn connect(
    server: &Running,
    versions: &[&'static SupportedProtocolVersion],
) -> TlsStream<TcpStream> {
    let provider = rustls::crypto::ring::default_provider();
    let config = ClientConfig::builder_with_provider(Arc::new(provider.clone()))
        .with_protocol_versions(versions)
        .expect("it has these")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting(provider)))
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("it is a name");
    let connected = TlsConnector::from(Arc::new(config)).connect(name, server.connect().await);
    server.clock.timeout(PATIENCE, connected).await.expect("it answers").expect("it speaks TLS")
}

/// Requests a path over TLS, with additional headers.
pub(crate) async fn ask(server: &Running, path: &str, headers: &str) -> Answer {
    let mut stream = connect(server, rustls::ALL_VERSIONS).await;
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.expect("it listens");
    read_to_end(&server.clock, &mut stream).await
}

/// The certificate of the server.
async fn shown(server: &Running) -> Vec<u8> {
    let stream = connect(server, rustls::ALL_VERSIONS).await;
    let (_, session) = stream.get_ref();
    session.peer_certificates().expect("it shows one")[0].to_vec()
}

/// Writes a new certificate and key to a directory. Returns the certificate.
pub(crate) fn put(folder: &Path) -> Vec<u8> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("it can be made");
    fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).expect("it can be written");
    fs::write(folder.join("tls.crt"), made.cert.pem()).expect("it can be written");
    made.cert.der().to_vec()
}

async fn serve(tls: Tls, metrics: &Metrics) -> Running {
    let scope = scope();
    let bound = MetricsServer::new(local()).tls(tls).bind(&scope.spawner(), metrics).await;
    Running::start(scope, bound)
}

/// Waits until the server has this certificate.
async fn wait_for(server: &Running, certificate: &[u8]) {
    let wait = async {
        while shown(server).await != certificate {
            server.clock.sleep(OFTEN).await;
        }
    };
    server.clock.timeout(PATIENCE, wait).await.expect("the certificate is renewed");
}

/// Waits for a number of failed reads.
async fn wait_for_errors(server: &Running, metrics: &Metrics, more_than: f64) -> f64 {
    let wait = async {
        loop {
            let errors =
                exposition::read(&metrics.encode_text())["certwatcher_read_certificate_errors_total"]
                    .value(&[]);
            if let Some(errors) = errors.filter(|errors| *errors > more_than) {
                return errors;
            }
            server.clock.sleep(OFTEN).await;
        }
    };
    server.clock.timeout(PATIENCE, wait).await.expect("the files are checked")
}

#[tokio::test]
async fn a_server_creates_a_self_signed_certificate() {
    let server = serve(Tls::self_signed(), &Metrics::new()).await;
    for versions in [[&rustls::version::TLS12], [&rustls::version::TLS13]] {
        let stream = connect(&server, &versions).await;
        assert_eq!(stream.get_ref().1.protocol_version(), Some(versions[0].version));
    }
    assert_eq!(ask(&server, "/metrics", "").await.status, 200);
    assert_eq!(shown(&server).await, shown(&server).await, "it is always the same one");
    let other = serve(Tls::self_signed(), &Metrics::new()).await;
    assert_ne!(shown(&server).await, shown(&other).await);
}

#[tokio::test]
async fn plain_http_is_rejected_and_other_connections_stay() {
    let server = serve(Tls::self_signed(), &Metrics::new()).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut said);
    let _ = server.clock.timeout(PATIENCE, read).await.expect("it is closed");
    assert!(!String::from_utf8_lossy(&said).contains("process_"));
    assert_eq!(ask(&server, "/metrics", "").await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_handshake_that_never_ends_is_cut() {
    let limit = Duration::from_millis(200);
    let server = MetricsServer::new(local())
        .tls(Tls::self_signed())
        .options(|server| server.first_request_timeout(limit));
    let scope = scope();
    let bound = server.bind(&scope.spawner(), &Metrics::new()).await;
    let server = Running::start(scope, bound);
    let mut stream = server.connect().await;
    stream.write_all(b"\x16\x03\x01").await.unwrap();
    let mut said = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut said);
    let _ = server.clock.timeout(PATIENCE, read).await.expect("it is closed");
}

#[tokio::test]
async fn a_certificate_is_renewed_and_a_broken_one_is_not() {
    let (folder, metrics) = (TempDir::new().unwrap(), Metrics::new());
    let first = put(folder.path());
    let server = serve(Tls::from_directory(folder.path()).interval(OFTEN), &metrics).await;
    assert_eq!(shown(&server).await, first);
    let mut before = connect(&server, rustls::ALL_VERSIONS).await;

    let second = put(folder.path());
    wait_for(&server, &second).await;
    before.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    assert_eq!(read_to_end(&server.clock, &mut before).await.status, 200, "existing connections stay");

    let errors = wait_for_errors(&server, &metrics, -1.0).await;
    fs::write(folder.path().join("tls.crt"), "nonsense").unwrap();
    let errors = wait_for_errors(&server, &metrics, errors).await;
    assert_eq!(shown(&server).await, second);
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(folder.path().join("tls.crt"), other.cert.pem()).unwrap();
    let errors = wait_for_errors(&server, &metrics, errors).await;
    assert_eq!(shown(&server).await, second, "the key is that of another certificate");
    fs::remove_file(folder.path().join("tls.key")).unwrap();
    wait_for_errors(&server, &metrics, errors + 1.0).await;
    assert_eq!(shown(&server).await, second);

    let last = put(folder.path());
    wait_for(&server, &last).await;
    server.stop().await;
}

#[tokio::test]
async fn a_directory_without_a_certificate_is_named() {
    let (folder, scope) = (TempDir::new().unwrap(), scope());
    let bind = async |tls: Tls| {
        let bound = Server::new("tests", local()).tls(tls).bind(&scope.spawner()).await;
        match bound.expect_err("there is none") {
            ServerError::Tls { purpose, source } => {
                assert_eq!(purpose, "tests");
                source
            }
            other => panic!("{other}"),
        }
    };
    let error = bind(Tls::from_directory(folder.path())).await;
    assert!(
        matches!(&error, TlsError::Read { path, .. } if *path == folder.path().join("tls.crt")),
        "{error}"
    );
    put(folder.path());
    let error = bind(Tls::from_directory(folder.path()).file_names("tls.crt", "other.key")).await;
    assert!(
        matches!(&error, TlsError::Read { path, .. } if *path == folder.path().join("other.key")),
        "{error}"
    );
    fs::write(folder.path().join("tls.crt"), "").unwrap();
    let error = bind(Tls::from_directory(folder.path())).await;
    assert!(matches!(&error, TlsError::Unusable { .. }), "{error}");
    assert!(error.to_string().contains("tls.crt"), "{error}");
}

//! Stand-ins for the programs: shell scripts for the processes, and a TLS server in this process that answers for the
//! API server.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_clock::{Clock, Scope};
use bowline_testing::{Binaries, RealControlPlane, RealControlPlaneBuilder, StartError};
use rustix::process::{Pid, test_kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Limit far above the duration of every step here.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Stand-in programs, and a directory for their plane.
pub(crate) struct StandIns {
    directory: TempDir,
    pub(crate) clock: Clock,
    scope: Scope,
    /// Requests that the API server received.
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
}

impl StandIns {
    /// Each program is a link to one of the scripts in `stand-ins`: executing a script that this process has just
    /// written can fail with "text file busy".
    pub(crate) fn new(etcd: &str, kube_apiserver: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let programs = [
            (Binaries::ETCD, etcd),
            (Binaries::KUBE_APISERVER, kube_apiserver),
            (Binaries::KUBE_CONTROLLER_MANAGER, "stays"),
        ];
        for (program, script) in programs {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/stand-ins").join(script);
            symlink(script, directory.path().join(program)).expect("a link");
        }
        let clock = Clock::real();
        Self { directory, scope: clock.scope("stand-ins"), clock, requests: Arc::default() }
    }

    pub(crate) fn builder(&self) -> RealControlPlaneBuilder {
        let binaries = Binaries::in_directory(self.directory.path());
        RealControlPlane::builder(self.clock.clone(), binaries).directory(self.plane()).ready_timeout(LIMIT)
    }

    /// The directory of the programs, which contains the plane's.
    pub(crate) fn programs(&self) -> &Path {
        self.directory.path()
    }

    /// Starts a plane and answers for its API server. Returns early on an error.
    pub(crate) async fn start(
        &self,
        builder: RealControlPlaneBuilder,
    ) -> Result<RealControlPlane, StartError> {
        let served = async {
            self.serve("200 OK").await;
            Ok(())
        };
        tokio::try_join!(builder.start(), served).map(|(plane, ())| plane)
    }

    /// The plane's directory.
    pub(crate) fn plane(&self) -> PathBuf {
        self.directory.path().join("plane")
    }

    /// The lines of a program's log.
    pub(crate) fn log(&self, program: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.plane().join(format!("{program}.log"))).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The text after `prefix` in a program's log, once it is there.
    pub(crate) async fn logged(&self, program: &str, prefix: &str) -> String {
        let found = async {
            loop {
                if let Some(rest) = self.log(program).iter().find_map(|line| line.strip_prefix(prefix)) {
                    return rest.to_owned();
                }
                self.clock.sleep(Duration::from_millis(5)).await;
            }
        };
        self.clock.timeout(LIMIT, found).await.expect("the stand-in writes its log")
    }

    /// Answers for the API server with `status`, once its stand-in has logged its port.
    pub(crate) async fn serve(&self, status: &'static str) {
        let port: u16 =
            self.logged(Binaries::KUBE_APISERVER, "--secure-port=").await.parse().expect("a port");
        let certificates = CertificateDer::pem_file_iter(self.plane().join("apiserver.crt")).expect("a file");
        let certificates = certificates.collect::<Result<Vec<_>, _>>().expect("certificates");
        let key = PrivateKeyDer::from_pem_file(self.plane().join("apiserver.key")).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .expect("a certificate with its key");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
        let requests = self.requests.clone();
        self.scope.spawn("server", async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") && stream.read_buf(&mut request).await.unwrap_or(0) > 0
                {
                }
                requests.lock().expect("no panic").push(String::from_utf8_lossy(&request).into_owned());
                let _ = stream.write_all(format!("HTTP/1.0 {status}\r\n\r\nsaid so\n").as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
    }
}

/// Whether a process exists.
pub(crate) fn runs(pid: u32) -> bool {
    Pid::from_raw(i32::try_from(pid).expect("a process id")).is_some_and(|pid| test_kill_process(pid).is_ok())
}

//! The certificate that a server shows, and how it is renewed.

use std::convert::Infallible;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bowline_clock::Spawner;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use crate::BoxError;
use crate::metrics::CertificateReads;

/// A file that is longer is no certificate.
const LONGEST_FILE: u64 = 1 << 20;

/// Whom a certificate is for that a server makes for itself.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// TLS for a server: versions 1.2 and 1.3, and where its certificate comes from.
#[derive(Clone, Debug)]
#[must_use = "it does nothing until a server has it"]
pub struct Tls(Origin);

#[derive(Clone, Debug)]
enum Origin {
    SelfSigned,
    Folder { folder: PathBuf, certificate: String, key: String, interval: Duration },
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}, which a certificate or its key should be in", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The files hold no certificate and its key.
    #[error("cannot use the certificate in {} with its key: both have to be PEM, and belong together", path.display())]
    Unusable {
        /// The file of the certificate.
        path: PathBuf,
        /// Why.
        source: BoxError,
    },
    /// No certificate could be made.
    #[error("cannot make a certificate and its key")]
    Made(#[source] BoxError),
}

impl Tls {
    /// The certificate and its key are in a folder: `tls.crt` and `tls.key` by default, as in a mounted Secret. They are
    /// looked at every 10 seconds, and when they have changed, new connections get the new certificate; while the new one
    /// cannot be used, the old one stays, and the log tells why.
    pub fn folder(folder: impl Into<PathBuf>) -> Self {
        let [certificate, key] = ["tls.crt", "tls.key"].map(str::to_owned);
        Self(Origin::Folder { folder: folder.into(), certificate, key, interval: Duration::from_secs(10) })
    }

    /// A certificate that the server makes for itself when it is bound, for this machine. Nobody can verify it: it keeps
    /// what is said secret, and says nothing of who is talked to.
    pub fn self_signed() -> Self {
        Self(Origin::SelfSigned)
    }

    /// What the files in the [`folder`](Self::folder) are called.
    pub fn file_names(mut self, of_certificate: impl Into<String>, of_key: impl Into<String>) -> Self {
        if let Origin::Folder { certificate, key, .. } = &mut self.0 {
            (*certificate, *key) = (of_certificate.into(), of_key.into());
        }
        self
    }

    /// How long it takes until the files in the [`folder`](Self::folder) are looked at again.
    pub fn interval(mut self, until_next: Duration) -> Self {
        if let Origin::Folder { interval, .. } = &mut self.0 {
            *interval = until_next;
        }
        self
    }

    /// Gets the certificate.
    pub(super) async fn load(self, spawner: &Spawner, reads: CertificateReads) -> Result<Shown, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (key, renewal) = match self.0 {
            Origin::SelfSigned => (self_signed(&provider).map_err(TlsError::Made)?, None),
            Origin::Folder { folder, certificate, key, interval } => {
                let files = Arc::new(Files { certificate: folder.join(certificate), key: folder.join(key) });
                let pair = files.read(spawner).await;
                let usable = pair.and_then(|pair| Ok((files.parse(&pair, &provider)?, pair)));
                reads.count(usable.is_ok());
                let (usable, pair) = usable?;
                (usable, Some(Renewal { files, last: Ok(pair), interval, reads }))
            }
        };
        let current = Arc::new(Current(RwLock::new(Arc::new(key))));
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| TlsError::Made(error.into()))?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Shown { current, config: Arc::new(config), renewal, provider })
    }
}

/// The certificate that is shown.
pub(super) struct Shown {
    current: Arc<Current>,
    config: Arc<ServerConfig>,
    renewal: Option<Renewal>,
    provider: Arc<CryptoProvider>,
}

/// How it is renewed.
struct Renewal {
    files: Arc<Files>,
    /// What was there at the last look, or why nothing.
    last: Result<Pair, String>,
    interval: Duration,
    reads: CertificateReads,
}

impl Shown {
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.clone())
    }

    /// Renews the certificate as long as this is polled.
    pub(super) async fn renew(mut self, spawner: &Spawner) -> Infallible {
        let Some(Renewal { files, last, interval, reads }) = &mut self.renewal else {
            return std::future::pending().await;
        };
        loop {
            spawner.clock().sleep(*interval).await;
            let pair = files.read(spawner).await;
            let look = pair.as_ref().map(Pair::clone).map_err(ToString::to_string);
            let is_new = look != *last;
            let usable = pair.and_then(|pair| files.parse(&pair, &self.provider));
            reads.count(usable.is_ok());
            if !is_new {
                continue;
            }
            *last = look;
            match usable {
                Ok(key) => {
                    self.current.replace(key);
                    tracing::info!(certificate = %files.certificate.display(), "the certificate was renewed");
                }
                Err(error) => tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the certificate is not renewed, and the one before stays"
                ),
            }
        }
    }
}

/// The certificate for the next connection.
struct Current(RwLock<Arc<CertifiedKey>>);

impl Current {
    fn replace(&self, key: CertifiedKey) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current").finish_non_exhaustive()
    }
}

/// Where a certificate and its key are.
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// What is in these files.
#[derive(Clone, PartialEq, Eq)]
struct Pair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Files {
    async fn read(self: &Arc<Self>, spawner: &Spawner) -> Result<Pair, TlsError> {
        let files = self.clone();
        let read = move || Ok(Pair { certificate: read(&files.certificate)?, key: read(&files.key)? });
        let is_gone =
            |error| TlsError::Read { path: self.certificate.clone(), source: io::Error::other(error) };
        spawner.blocking("certificate", read).await.map_err(is_gone)?
    }

    fn parse(&self, pair: &Pair, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let parse = || -> Result<CertifiedKey, BoxError> {
            let chain = CertificateDer::pem_slice_iter(&pair.certificate).collect::<Result<Vec<_>, _>>()?;
            if chain.is_empty() {
                return Err("it holds no certificate".into());
            }
            Ok(CertifiedKey::from_der(chain, PrivateKeyDer::from_pem_slice(&pair.key)?, provider)?)
        };
        parse().map_err(|source| TlsError::Unusable { path: self.certificate.clone(), source })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST_FILE).read_to_end(&mut bytes));
    read.map_err(|source| TlsError::Read { path: path.to_owned(), source })?;
    Ok(bytes)
}

/// A certificate that nobody vouches for. Its key comes from the operating system.
fn self_signed(provider: &CryptoProvider) -> Result<CertifiedKey, BoxError> {
    let made = rcgen::generate_simple_self_signed(NAMES.map(str::to_owned))?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    Ok(CertifiedKey::from_der(vec![made.cert.der().clone()], key, provider)?)
}

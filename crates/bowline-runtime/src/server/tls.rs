//! The certificate of a server and its renewal.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use bowline_clock::{Clock, Spawner};
use bowline_machinery::validate_dns1123_subdomain;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use crate::BoxError;
use crate::metrics::CertificateReads;

/// Maximum size of a certificate file.
const MAX_FILE: u64 = 1 << 20;

/// Names in a self-signed certificate, beside the host name.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Common name of a self-signed certificate.
const COMMON_NAME: &str = "bowline self-signed";

/// Lifetime of a self-signed certificate.
const LIFETIME: Duration = Duration::from_hours(365 * 24);

/// Age at which a self-signed certificate is replaced: a month before its end.
const RENEWAL_AGE: Duration = Duration::from_hours(335 * 24);

/// Start of validity of a self-signed certificate before its creation, since clocks of scrapers may differ.
const CLOCK_SKEW: Duration = Duration::from_hours(1);

/// TLS of a server, versions 1.2 and 1.3, with the source of its certificate.
#[derive(Clone, Debug)]
#[must_use = "TLS options do nothing until a server uses them"]
pub struct Tls(Origin);

#[derive(Clone, Debug)]
enum Origin {
    SelfSigned,
    Directory { directory: PathBuf, certificate: String, key: String, interval: Duration },
}

/// A certificate that cannot be loaded or created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read the certificate or key file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The files do not contain a certificate and its key.
    #[error("cannot use the certificate in {} with its key: both have to be PEM, and belong together", path.display())]
    Unusable {
        /// The certificate file.
        path: PathBuf,
        /// The cause.
        source: BoxError,
    },
    /// No certificate could be created.
    #[error("cannot create a certificate and its key")]
    Made(#[source] BoxError),
}

impl Tls {
    /// Loads certificate and key from a directory: `tls.crt` and `tls.key` by default, as in a mounted Secret. They are
    /// checked every 10 seconds. After a change, new connections get the new certificate. An invalid one is logged, and
    /// the previous one stays.
    pub fn from_directory(directory: impl Into<PathBuf>) -> Self {
        let [certificate, key] = ["tls.crt", "tls.key"].map(str::to_owned);
        Self(Origin::Directory {
            directory: directory.into(),
            certificate,
            key,
            interval: Duration::from_secs(10),
        })
    }

    /// Creates a certificate for this machine when the server is bound. It is valid for a year and is replaced a month
    /// before its end. Clients cannot verify it: it encrypts the traffic but does not prove the server's identity.
    pub fn self_signed() -> Self {
        Self(Origin::SelfSigned)
    }

    /// File names in the [directory](Self::from_directory). Default: `tls.crt` and `tls.key`.
    pub fn file_names(mut self, of_certificate: impl Into<String>, of_key: impl Into<String>) -> Self {
        if let Origin::Directory { certificate, key, .. } = &mut self.0 {
            (*certificate, *key) = (of_certificate.into(), of_key.into());
        }
        self
    }

    /// Interval of checks of the [directory](Self::from_directory). Default: 10 s.
    pub fn interval(mut self, until_next: Duration) -> Self {
        if let Origin::Directory { interval, .. } = &mut self.0 {
            *interval = until_next;
        }
        self
    }

    /// Loads or creates the certificate.
    pub(super) async fn load(
        self,
        spawner: &Spawner,
        reads: CertificateReads,
    ) -> Result<ServingCertificate, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (key, renewal) = match self.0 {
            Origin::SelfSigned => {
                let now = spawner.clock().system_time();
                (self_signed(now, &provider).map_err(TlsError::Made)?, Renewal::SelfSigned)
            }
            Origin::Directory { directory, certificate, key, interval } => {
                let files =
                    Arc::new(Files { certificate: directory.join(certificate), key: directory.join(key) });
                let pair = files.read(spawner).await;
                let usable = pair.and_then(|pair| Ok((files.parse(&pair, &provider)?, pair)));
                reads.count(usable.is_ok());
                let (usable, pair) = usable?;
                (usable, Renewal::Files { files, last: Ok(pair), interval, reads })
            }
        };
        let current = Arc::new(Current(RwLock::new(Arc::new(key))));
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| TlsError::Made(error.into()))?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(ServingCertificate { current, config: Arc::new(config), renewal, provider })
    }
}

/// The certificate in use.
pub(super) struct ServingCertificate {
    current: Arc<Current>,
    config: Arc<ServerConfig>,
    renewal: Renewal,
    provider: Arc<CryptoProvider>,
}

/// Source of renewals.
enum Renewal {
    SelfSigned,
    Files {
        files: Arc<Files>,
        /// The files at the last check, or the error.
        last: Result<Pair, String>,
        interval: Duration,
        reads: CertificateReads,
    },
}

impl ServingCertificate {
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.clone())
    }

    /// Renews the certificate as long as this is polled.
    pub(super) async fn renew(mut self, spawner: &Spawner) -> Infallible {
        let Renewal::Files { files, last, interval, reads } = &mut self.renewal else {
            return self.renew_self_signed(spawner.clock()).await;
        };
        loop {
            spawner.clock().sleep(*interval).await;
            let pair = files.read(spawner).await;
            let check = pair.as_ref().map(Pair::clone).map_err(ToString::to_string);
            let is_new = check != *last;
            let usable = pair.and_then(|pair| files.parse(&pair, &self.provider));
            reads.count(usable.is_ok());
            if !is_new {
                continue;
            }
            *last = check;
            match usable {
                Ok(key) => {
                    self.current.replace(key);
                    tracing::info!(certificate = %files.certificate.display(), "certificate renewed");
                }
                Err(error) => tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "certificate not renewed; the previous one stays"
                ),
            }
        }
    }
}

impl ServingCertificate {
    async fn renew_self_signed(&self, clock: &Clock) -> Infallible {
        loop {
            clock.sleep(RENEWAL_AGE).await;
            match self_signed(clock.system_time(), &self.provider) {
                Ok(key) => {
                    self.current.replace(key);
                    tracing::info!("self-signed certificate renewed");
                }
                Err(error) => {
                    tracing::error!(error = &*error as &dyn Error, "self-signed certificate not renewed");
                }
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

/// Paths of a certificate and its key.
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// Content of these files.
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
        spawner.spawn_blocking("certificate", read).await.map_err(is_gone)?
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
    let read = File::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes));
    read.map_err(|source| TlsError::Read { path: path.to_owned(), source })?;
    Ok(bytes)
}

/// Creates a self-signed certificate. The key comes from the operating system's random numbers.
fn self_signed(now: SystemTime, provider: &CryptoProvider) -> Result<CertifiedKey, BoxError> {
    let (params, key) = (self_signed_params(now)?, KeyPair::generate()?);
    let certificate = params.self_signed(&key)?.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok(CertifiedKey::from_der(vec![certificate], key, provider)?)
}

fn self_signed_params(now: SystemTime) -> Result<CertificateParams, BoxError> {
    let host = hostname::get().ok().and_then(|name| name.into_string().ok());
    // A host name that is invalid in a certificate is omitted.
    let host =
        host.filter(|name| validate_dns1123_subdomain(name).is_empty() && !NAMES.contains(&name.as_str()));
    let names: Vec<_> = NAMES.iter().map(|&name| name.to_owned()).chain(host).collect();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, COMMON_NAME);
    params.not_before = (now - CLOCK_SKEW).into();
    params.not_after = (now + LIFETIME).into();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

#[cfg(test)]
mod tests {
    use rcgen::DnValue;

    use super::*;

    #[test]
    fn a_self_signed_certificate_lives_for_a_year_and_has_a_name() {
        let now = Clock::real().system_time();
        let params = self_signed_params(now).unwrap();
        assert_eq!(params.not_after, now + LIFETIME);
        assert!(params.not_before < now);
        let name = params.distinguished_name.get(&DnType::CommonName);
        assert_eq!(name, Some(&DnValue::Utf8String(COMMON_NAME.to_owned())));
        self_signed(now, &rustls::crypto::ring::default_provider()).unwrap();
    }
}

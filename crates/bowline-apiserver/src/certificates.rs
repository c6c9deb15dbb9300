//! The certificates of a server: an authority made for it alone, what the server shows, and what its administrator does.
//!
//! Keys come from the operating system, not from the clock's randomness: a key that a seed repeats is no key.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;

use crate::authentication::{ADMIN, ADMINS};

/// The names by which a server is called beside its address: those that real ones have.
const NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// The address of the Service `default/kubernetes`, and those of the machine itself.
const ADDRESSES: [IpAddr; 3] = [
    IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
    IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
    IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)),
];

/// Machines disagree about the time.
const CLOCK_SKEW: Duration = Duration::from_hours(1);
const VALIDITY: Duration = Duration::from_hours(365 * 24);

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) enum CertificateError {
    Made(#[from] rcgen::Error),
    Used(#[from] rustls::Error),
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// Certificates and keys for TLS on both sides, as PEM where clients get it.
pub(crate) struct Certificates {
    pub(crate) authority: String,
    pub(crate) client: String,
    pub(crate) client_key: String,
    pub(crate) server: Arc<ServerConfig>,
}

impl Certificates {
    /// Makes all of them, for a server that listens at `address`. The authority's key is dropped: it signs nothing else.
    pub(crate) fn make(address: IpAddr, now: SystemTime) -> Result<Self, CertificateError> {
        let mut authority = parameters("bowline-ca", now);
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let mut server = parameters("kube-apiserver", now);
        for name in NAMES {
            server.subject_alt_names.push(SanType::DnsName(name.try_into()?));
        }
        let unspecified = address.is_unspecified() || ADDRESSES.contains(&address);
        let addresses = ADDRESSES.into_iter().chain((!unspecified).then_some(address));
        server.subject_alt_names.extend(addresses.map(SanType::IpAddress));
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server_key = KeyPair::generate()?;
        let server = server.signed_by(&server_key, &authority)?;

        let mut client = parameters(ADMIN, now);
        client.distinguished_name.push(DnType::OrganizationName, ADMINS);
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let client_key = KeyPair::generate()?;
        let client = client.signed_by(&client_key, &authority)?;

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority.der().clone())?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .allow_unauthenticated()
            .build()?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(
                vec![server.der().clone()],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der())),
            )?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            authority: authority.pem(),
            client: client.pem(),
            client_key: client_key.serialize_pem(),
            server: Arc::new(config),
        })
    }
}

fn parameters(name: &str, now: SystemTime) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    parameters.not_before = epoch + since_epoch.saturating_sub(CLOCK_SKEW);
    parameters.not_after = epoch + since_epoch + VALIDITY;
    parameters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_made_for_any_address() {
        for address in ["127.0.0.1", "0.0.0.0", "::", "192.0.2.1", "2001:db8::1"] {
            let address = address.parse().expect("it is an address");
            let made = Certificates::make(address, SystemTime::UNIX_EPOCH + VALIDITY);
            let made = made.unwrap_or_else(|error| panic!("{address}: {error}"));
            assert!(made.authority.contains("BEGIN CERTIFICATE") && made.client_key.contains("PRIVATE KEY"));
        }
    }
}

//! Keys, certificates and tokens of one control plane. Owns who is signed by whom, and for what.
//!
//! Two authorities: one that the API server trusts clients by, one that etcd does. So a client of the API server is
//! nobody to etcd.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bowline_clock::Clock;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::Secret;

/// Clocks of a test machine and its containers may differ.
const BEFORE: Duration = Duration::from_hours(24);
/// A plane that was started with `cargo xtask real up` may run for long.
const VALID: Duration = Duration::from_hours(365 * 24);

const LOCAL: &[&str] = &["localhost", "127.0.0.1"];
/// Also what a pod would call the API server; 10.0.0.1 is the first address of the service range.
const API_SERVER: &[&str] = &[
    "localhost",
    "127.0.0.1",
    "10.0.0.1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// All that a control plane and its administrator prove themselves with.
pub(super) struct Credentials {
    pub(super) authority: Authority,
    pub(super) api_server: Pair,
    pub(super) admin: Pair,
    pub(super) admin_token: Secret,
    pub(super) controller_manager: Pair,
    pub(super) controller_manager_server: Pair,
    pub(super) service_account_key: Secret,
    pub(super) service_account_public_key: String,
    pub(super) etcd_authority: Authority,
    pub(super) etcd_server: Pair,
    pub(super) etcd_client: Pair,
}

impl Credentials {
    /// New ones. What is drawn comes from the operating system, whatever the clock.
    pub(super) fn generate(clock: &Clock) -> Result<Self, rcgen::Error> {
        let authority = Authority::new("bowline-real", clock)?;
        let etcd_authority = Authority::new("bowline-real-etcd", clock)?;
        let service_account = KeyPair::generate()?;
        Ok(Self {
            api_server: authority.server("kube-apiserver", API_SERVER, clock)?,
            admin: authority.client("kubernetes-admin", Some("system:masters"), clock)?,
            admin_token: token(clock),
            controller_manager: authority.client("system:kube-controller-manager", None, clock)?,
            controller_manager_server: authority.server("kube-controller-manager", LOCAL, clock)?,
            service_account_key: Secret::new(service_account.serialize_pem()),
            service_account_public_key: service_account.public_key_pem(),
            etcd_server: etcd_authority.member("etcd", clock)?,
            etcd_client: etcd_authority.client("kube-apiserver", None, clock)?,
            authority,
            etcd_authority,
        })
    }
}

/// A certificate and its private key, as PEM.
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: Secret,
}

/// Whoever signs certificates.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str, clock: &Clock) -> Result<Self, rcgen::Error> {
        let mut params = params(name, &[], clock)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        CertifiedIssuer::self_signed(params, KeyPair::generate()?).map(Self)
    }

    /// The certificate, as PEM.
    pub(super) fn certificate(&self) -> String {
        self.0.pem()
    }

    pub(super) fn certificate_der(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    pub(super) fn key(&self) -> Secret {
        Secret::new(self.0.key().serialize_pem())
    }

    fn server(&self, name: &str, hosts: &[&str], clock: &Clock) -> Result<Pair, rcgen::Error> {
        self.sign(params(name, hosts, clock)?, vec![ExtendedKeyUsagePurpose::ServerAuth])
    }

    fn client(&self, user: &str, group: Option<&str>, clock: &Clock) -> Result<Pair, rcgen::Error> {
        let mut params = params(user, &[], clock)?;
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        self.sign(params, vec![ExtendedKeyUsagePurpose::ClientAuth])
    }

    /// A server that is also a client of its like.
    fn member(&self, name: &str, clock: &Clock) -> Result<Pair, rcgen::Error> {
        let usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params(name, LOCAL, clock)?, usages)
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        usages: Vec<ExtendedKeyUsagePurpose>,
    ) -> Result<Pair, rcgen::Error> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages;
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?;
        Ok(Pair { certificate: certificate.pem(), key: Secret::new(key.serialize_pem()) })
    }
}

fn params(name: &str, hosts: &[&str], clock: &Clock) -> Result<CertificateParams, rcgen::Error> {
    let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
    // Hosts that are addresses become addresses.
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name.push(DnType::CommonName, name);
    let now = clock.wall();
    params.not_before = (now - BEFORE).into();
    params.not_after = (now + VALID).into();
    Ok(params)
}

fn token(clock: &Clock) -> Secret {
    let mut bytes = [0; 32];
    clock.rng().fill(&mut bytes);
    Secret::new(URL_SAFE_NO_PAD.encode(bytes))
}

//! Keys, certificates and tokens of one control plane. Owns which authority signs what.
//!
//! The API server and etcd have an authority each, so that etcd accepts no client of the API server.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bowline_clock::Clock;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::SecretString;

/// Start of validity before now: clocks of a machine and its containers may differ.
const BEFORE: Duration = Duration::from_hours(24);
/// Validity from now: a plane of `cargo xtask real up` may run for long.
const VALID: Duration = Duration::from_hours(365 * 24);

const LOCAL: &[&str] = &["localhost", "127.0.0.1"];
/// Includes the names that pods use; 10.0.0.1 is the first address of the service range.
const API_SERVER: &[&str] = &[
    "localhost",
    "127.0.0.1",
    "10.0.0.1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Credentials of a control plane and its administrator.
pub(super) struct Credentials {
    pub(super) authority: Authority,
    pub(super) api_server: Pair,
    pub(super) admin: Pair,
    pub(super) admin_token: SecretString,
    pub(super) controller_manager: Pair,
    pub(super) controller_manager_server: Pair,
    pub(super) service_account_key: SecretString,
    pub(super) service_account_public_key: String,
    pub(super) etcd_authority: Authority,
    pub(super) etcd_server: Pair,
    pub(super) etcd_client: Pair,
}

impl Credentials {
    /// New ones, from the operating system's randomness, never from the clock's.
    pub(super) fn generate(clock: &Clock) -> Result<Self, rcgen::Error> {
        let authority = Authority::new("bowline-real", clock)?;
        let etcd_authority = Authority::new("bowline-real-etcd", clock)?;
        let service_account = KeyPair::generate()?;
        Ok(Self {
            api_server: authority.server("kube-apiserver", API_SERVER, clock)?,
            admin: authority.client("kubernetes-admin", Some("system:masters"), clock)?,
            admin_token: token()?,
            controller_manager: authority.client("system:kube-controller-manager", None, clock)?,
            controller_manager_server: authority.server("kube-controller-manager", LOCAL, clock)?,
            service_account_key: SecretString::new(service_account.serialize_pem()),
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
    pub(super) key: SecretString,
}

/// A certificate authority.
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

    pub(super) fn key(&self) -> SecretString {
        SecretString::new(self.0.key().serialize_pem())
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

    /// A server that is also a client of its peers.
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
        Ok(Pair { certificate: certificate.pem(), key: SecretString::new(key.serialize_pem()) })
    }
}

fn params(name: &str, hosts: &[&str], clock: &Clock) -> Result<CertificateParams, rcgen::Error> {
    let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
    // Hosts that are IP addresses become addresses.
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name.push(DnType::CommonName, name);
    let now = clock.system_time();
    params.not_before = (now - BEFORE).into();
    params.not_after = (now + VALID).into();
    Ok(params)
}

/// A token from the system's randomness: the seed of a clock's generator may be known.
fn token() -> Result<SecretString, rcgen::Error> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| rcgen::Error::RingUnspecified)?;
    Ok(SecretString::new(URL_SAFE_NO_PAD.encode(bytes)))
}

#[cfg(test)]
mod tests {
    use bowline_clock::Simulation;

    use super::*;

    #[test]
    fn tokens_and_keys_do_not_follow_from_a_clocks_seed() {
        let generate = || {
            let credentials = Simulation::new(7).run(|clock| async move { Credentials::generate(&clock) });
            let credentials = credentials.unwrap();
            (credentials.admin_token, credentials.service_account_key)
        };
        let (first, second) = (generate(), generate());
        assert_ne!(first.0, second.0);
        assert_ne!(first.1, second.1);
    }
}

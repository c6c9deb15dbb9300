//! What a client has to know to be let in, in the form that kubectl and all clients read.

use std::fmt;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::authentication::Token;
use crate::certificates::Certificates;

/// A kubeconfig with everything embedded, and two contexts: `bowline` shows the administrator's certificate (this is the
/// current one), `bowline-token` the administrator's token.
///
/// Whoever can read it may do everything with the server.
#[derive(Clone)]
pub struct Kubeconfig {
    server: String,
    authority: String,
    client: String,
    client_key: String,
    token: Token,
}

impl Kubeconfig {
    pub(crate) fn new(address: SocketAddr, certificates: &Certificates, token: Token) -> Self {
        // Nobody can call a server that listens everywhere "everywhere".
        let host = match address.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            host => host,
        };
        Self {
            server: format!("https://{}", SocketAddr::new(host, address.port())),
            authority: certificates.authority.clone(),
            client: certificates.client.clone(),
            client_key: certificates.client_key.clone(),
            token,
        }
    }

    /// The address of the server: `https://127.0.0.1:6443`.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The certificate of the authority that signed the server's, as PEM.
    #[must_use]
    pub fn certificate_authority(&self) -> &str {
        &self.authority
    }

    /// The administrator's token.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// The whole file. It holds secrets.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let Self { server, authority, client, client_key, token } = self;
        let [authority, client, client_key] = [authority, client, client_key].map(|pem| STANDARD.encode(pem));
        let token = token.reveal();
        format!(
            "apiVersion: v1
kind: Config
current-context: bowline
clusters:
- name: bowline
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: bowline
  user:
    client-certificate-data: {client}
    client-key-data: {client_key}
- name: bowline-token
  user:
    token: {token}
contexts:
- name: bowline
  context:
    cluster: bowline
    user: bowline
- name: bowline-token
  context:
    cluster: bowline
    user: bowline-token
"
        )
    }

    /// Writes the file so that only its owner can read it. One that is there is replaced at once: nobody reads half of it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}.new", std::process::id()));
        let beside = Path::new(&beside);
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options
            .open(beside)
            .and_then(|mut file| file.write_all(self.to_yaml().as_bytes()))
            .and_then(|()| std::fs::rename(beside, path));
        if written.is_err() {
            // What is left is of no use to anybody, and there may be nothing left.
            let _ = std::fs::remove_file(beside);
        }
        written
    }
}

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubeconfig").field("server", &self.server).finish_non_exhaustive()
    }
}

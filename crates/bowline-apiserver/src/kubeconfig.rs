//! Server address and credentials of a client, as a kubeconfig file.

mod temporary;

use std::fmt;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::authentication::Token;
use crate::certificates::Certificates;

pub use temporary::TemporaryKubeconfig;

/// A kubeconfig with everything embedded, and two contexts: `bowline` shows the administrator's certificate (this is the
/// current one), `bowline-token` the administrator's token.
///
/// It holds the administrator's credentials: a reader of the file has full access to the server.
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
        // No client can connect to an unspecified address.
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
        let token = token.expose();
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

    /// Writes the file so that only its owner can read it. A file or symbolic link at this path is replaced in one step, so
    /// that no reader sees half of it.
    ///
    /// # Errors
    /// If it cannot be written. The file at this path is then unchanged.
    pub fn write(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{:016x}.new", temporary::random()?));
        let beside = Path::new(&beside);
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        // If this fails, a file of this name belongs to another program.
        let mut file = options.open(beside)?;
        let written = file.write_all(self.to_yaml().as_bytes()).and_then(|()| std::fs::rename(beside, path));
        if written.is_err() {
            let _ = std::fs::remove_file(beside);
        }
        written
    }

    /// Writes the file `kubeconfig` into a new directory that only this user can enter. The directory is in
    /// `$XDG_RUNTIME_DIR`, or else in the directory of temporary files, and its name begins with that of the program. Both
    /// are removed when the result is dropped.
    ///
    /// # Errors
    /// If there is no directory in which it can be written.
    pub fn write_temporary(&self, program: &str) -> io::Result<TemporaryKubeconfig> {
        TemporaryKubeconfig::write(self, program, temporary::parents())
    }
}

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubeconfig").field("server", &self.server).finish_non_exhaustive()
    }
}

//! The address of a server, as text.

use std::fmt;
use std::io::{
    self,
    ErrorKind::{AddrInUse, PermissionDenied},
};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use tokio::net::TcpListener;

/// The address of a server, written as in controller-runtime: `:8080` is a port on all addresses; `127.0.0.1:8080`,
/// `[::1]:8080` and `localhost:8080` are specific ones; port 0 lets the system choose; a plain `0` disables the server.
///
/// ```
/// use bowline_runtime::server::BindAddress;
///
/// let address: BindAddress = ":8080".parse()?;
/// assert_eq!(address, BindAddress::all(8080));
/// assert_eq!(address.to_string(), ":8080");
/// assert!("0".parse::<BindAddress>()?.is_off());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BindAddress(Form);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Form {
    Off,
    All(u16),
    At { host: String, port: u16 },
}

/// A text that is not a [`BindAddress`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a listen address: {problem}; use \":8080\", \"127.0.0.1:8080\", or \"0\" for none")]
pub struct BindAddressError {
    text: String,
    problem: &'static str,
}

impl BindAddress {
    /// No server.
    #[must_use]
    pub fn off() -> Self {
        Self(Form::Off)
    }

    /// A port on all addresses.
    #[must_use]
    pub fn all(port: u16) -> Self {
        Self(Form::All(port))
    }

    /// Whether the server is disabled.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.0 == Form::Off
    }

    /// Whether only the local machine can connect. `None` for a host name, which is not resolved here, and without a
    /// server.
    #[must_use]
    pub fn is_loopback(&self) -> Option<bool> {
        match &self.0 {
            Form::Off => None,
            Form::All(_) => Some(false),
            Form::At { host, .. } if host.eq_ignore_ascii_case("localhost") => Some(true),
            Form::At { host, .. } => host.parse().ok().map(|ip: IpAddr| ip.to_canonical().is_loopback()),
        }
    }

    /// Opens the port.
    pub(super) async fn listen(&self) -> io::Result<TcpListener> {
        let (host, port) = match &self.0 {
            Form::Off => return Err(io::Error::other("the server is disabled")),
            Form::At { host, port } => (host.as_str(), *port),
            // This accepts IPv4 too, but some machines have no IPv6.
            Form::All(port) => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port)).await {
                Err(error) if !matches!(error.kind(), AddrInUse | PermissionDenied) => ("0.0.0.0", *port),
                bound => return bound,
            },
        };
        TcpListener::bind((host, port)).await
    }
}

impl From<SocketAddr> for BindAddress {
    fn from(address: SocketAddr) -> Self {
        Self(Form::At { host: address.ip().to_string(), port: address.port() })
    }
}

impl FromStr for BindAddress {
    type Err = BindAddressError;

    fn from_str(text: &str) -> Result<Self, BindAddressError> {
        let wrong = |problem| BindAddressError { text: text.to_owned(), problem };
        if text == "0" {
            return Ok(Self::off());
        }
        if text.is_empty() {
            return Err(wrong("it is empty"));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| wrong("it has no port"))?;
        // `parse` would also accept `+1`.
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|_| is_number);
        let port = port.ok_or_else(|| wrong("its port is no number from 0 to 65535"))?;
        let host = match host.strip_prefix('[') {
            Some(rest) => {
                let host = rest.strip_suffix(']').filter(|host| host.parse::<Ipv6Addr>().is_ok());
                host.ok_or_else(|| wrong("there is no IPv6 address in its brackets"))?
            }
            None if host.contains(':') => return Err(wrong("an IPv6 address goes into brackets")),
            None => host,
        };
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "/@[]?#%".contains(c);
        if host.contains(is_odd) {
            return Err(wrong("its host is none"));
        }
        Ok(if host.is_empty() { Self::all(port) } else { Self(Form::At { host: host.to_owned(), port }) })
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Off => f.write_str("0"),
            Form::All(port) => write!(f, ":{port}"),
            Form::At { host, port } if matches!(host.parse(), Ok(IpAddr::V6(_))) => {
                write!(f, "[{host}]:{port}")
            }
            Form::At { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_written_as_people_write_it() {
        for text in ["0", ":8080", ":0", "127.0.0.1:0", "[::1]:8443", "localhost:65535", "metrics.local:1"] {
            let address: BindAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(address.is_off(), text == "0");
        }
        let socket: SocketAddr = "[::1]:80".parse().unwrap();
        assert_eq!(BindAddress::from(socket), "[::1]:80".parse().unwrap());
        assert_eq!("[::]:8080".parse::<BindAddress>().unwrap().to_string(), "[::]:8080");
    }

    #[test]
    fn an_address_is_loopback_unless_others_reach_it() {
        for (text, is_loopback) in [
            ("0", None),
            (":8080", Some(false)),
            ("0.0.0.0:8080", Some(false)),
            ("[::]:8080", Some(false)),
            ("10.0.0.1:8080", Some(false)),
            ("metrics.local:8080", None),
            ("127.0.0.1:8080", Some(true)),
            ("127.1.2.3:0", Some(true)),
            ("[::1]:8080", Some(true)),
            ("[::ffff:127.0.0.1]:8080", Some(true)),
            ("LocalHost:8080", Some(true)),
        ] {
            assert_eq!(text.parse::<BindAddress>().unwrap().is_loopback(), is_loopback, "{text}");
        }
    }

    #[test]
    fn invalid_addresses_have_specific_errors() {
        for (text, problem) in [
            ("", "it is empty"),
            ("8080", "it has no port"),
            ("localhost", "it has no port"),
            (":", "its port is no number"),
            (":+1", "its port is no number"),
            (":65536", "its port is no number"),
            (":http", "its port is no number"),
            ("::1:80", "goes into brackets"),
            ("[::1:80", "there is no IPv6 address"),
            ("[localhost]:80", "there is no IPv6 address"),
            ("http://localhost:80", "goes into brackets"),
            ("local host:80", "its host is none"),
            ("user@localhost:80", "its host is none"),
        ] {
            let error = text.parse::<BindAddress>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text:?}: {error}");
            assert!(error.contains("or \"0\" for none"), "{error}");
        }
    }
}

//! One HTTPS request that checks whether the API server is ready. It reads the whole answer, within a limit, and keeps no
//! connection.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use super::SecretString;

const LONGEST_ANSWER: u64 = 64 * 1024;

/// Sends requests to an API server on loopback, as its administrator.
pub(super) struct Probe {
    connector: TlsConnector,
    port: u16,
    token: SecretString,
}

/// The server's answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

impl Probe {
    pub(super) fn new(
        authority: CertificateDer<'static>,
        port: u16,
        token: SecretString,
    ) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(authority)?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), port, token })
    }

    pub(super) async fn get(&self, path: &str) -> io::Result<Answer> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await?;
        let name = ServerName::IpAddress(Ipv4Addr::LOCALHOST.into());
        let mut stream = self.connector.connect(name, stream).await?;
        // In HTTP 1.0 the response ends with the connection, and has one piece.
        let request = format!(
            "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n\r\n",
            self.token.expose()
        );
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let mut bytes = Vec::new();
        match stream.take(LONGEST_ANSWER).read_to_end(&mut bytes).await {
            // A server may close without TLS's close_notify; the answer is complete if it parses.
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            _ => parse(&String::from_utf8_lossy(&bytes)),
        }
    }
}

fn parse(text: &str) -> io::Result<Answer> {
    let status = text
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split(' ').nth(1)?.get(..3)?.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP"))?;
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok(Answer { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_status_and_a_body() {
        let answer = parse("HTTP/1.0 500 Internal Server Error\r\nX: y\r\n\r\n[-]etcd failed\n").unwrap();
        assert_eq!(answer, Answer { status: 500, body: "[-]etcd failed\n".to_owned() });
        assert_eq!(parse("HTTP/1.1 200\r\n\r\n").unwrap().status, 200);
    }

    #[test]
    fn what_is_not_http_is_an_error() {
        for text in ["", "HTTP/1.0", "HTTP/1.0 ", "HTTP/1.0 ok\r\n\r\n", "SSH-2.0-x"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}

//! The load generator's connections: HTTP/1.1 over TLS with keep-alive, one request at a time, without limits; or
//! HTTP/2, for many watches.

use std::net::SocketAddr;
use std::sync::Arc;

use bowline_clock::Spawner;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::config::AuthInfo;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::load::Failure;

const AGENT: &str = "bowline-bench";

/// Address of an API server, its certificate authority, and the administrator's credentials.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Endpoint {
    /// `https://127.0.0.1:PORT`
    pub(crate) server: String,
    /// As PEM.
    pub(crate) authority: String,
    pub(crate) token: String,
}

impl Endpoint {
    /// The certificate authority as DER.
    ///
    /// # Errors
    /// When the PEM contains no certificate.
    pub(crate) fn authority_der(&self) -> Result<Vec<u8>, Failure> {
        Ok(CertificateDer::from_pem_slice(self.authority.as_bytes())?.to_vec())
    }

    /// Configuration of a kube-rs client, with its defaults.
    ///
    /// # Errors
    /// When the endpoint is invalid.
    pub(crate) fn config(&self) -> Result<kube::Config, Failure> {
        let mut config = kube::Config::new(self.server.parse()?);
        config.root_cert = Some(vec![self.authority_der()?]);
        config.auth_info = AuthInfo { token: Some(self.token.clone().into()), ..AuthInfo::default() };
        Ok(config)
    }
}

/// Opens connections to one API server.
#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    http1: TlsConnector,
    http2: TlsConnector,
    token: HeaderValue,
    host: HeaderValue,
    spawner: Spawner,
}

/// One connection.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    token: HeaderValue,
    host: HeaderValue,
}

/// One connection that many requests share.
pub(crate) struct Shared {
    sender: http2::SendRequest<Full<Bytes>>,
    server: String,
    token: HeaderValue,
}

/// Path of the request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn new(endpoint: &Endpoint, spawner: Spawner) -> Result<Self, Failure> {
        let address = endpoint.server.strip_prefix("https://").ok_or("the address is not https")?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(endpoint.authority.as_bytes())?)?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut connector = |protocol: &[u8]| {
            config.alpn_protocols = vec![protocol.to_vec()];
            TlsConnector::from(Arc::new(config.clone()))
        };
        Ok(Self {
            address: address.parse()?,
            http1: connector(b"http/1.1"),
            http2: connector(b"h2"),
            token: format!("Bearer {}", endpoint.token).parse()?,
            host: address.parse()?,
            spawner,
        })
    }

    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        let (sender, connection) = http1::handshake(TokioIo::new(self.stream(&self.http1).await?)).await?;
        // An error of the connection shows in the next request.
        self.spawner.spawn("connection", async move { drop(connection.await) });
        Ok(Connection { sender, token: self.token.clone(), host: self.host.clone() })
    }

    pub(crate) async fn share(&self) -> Result<Shared, Failure> {
        let stream = TokioIo::new(self.stream(&self.http2).await?);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
        self.spawner.spawn("connection", async move { drop(connection.await) });
        Ok(Shared { sender, server: format!("https://{}", self.address), token: self.token.clone() })
    }

    /// Opens a stream on its own connection, and returns the raw response, head first. The request is the same as in
    /// [`Connection::start`].
    pub(crate) async fn follow(&self, path: &str) -> Result<TlsStream<TcpStream>, Failure> {
        let mut stream = self.stream(&self.http1).await?;
        let mut head = format!("GET {path} HTTP/1.1\r\n").into_bytes();
        let agent = HeaderValue::from_static(AGENT);
        for (name, value) in [(HOST, &self.host), (AUTHORIZATION, &self.token), (USER_AGENT, &agent)] {
            head.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        head.extend(b"\r\n");
        stream.write_all(&head).await?;
        stream.flush().await?;
        Ok(stream)
    }

    async fn stream(&self, connector: &TlsConnector) -> Result<TlsStream<TcpStream>, Failure> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(connector.connect(ServerName::IpAddress(self.address.ip().into()), stream).await?)
    }

    pub(crate) async fn connect_all(&self, connections: usize) -> Result<Vec<Connection>, Failure> {
        let mut all = Vec::with_capacity(connections);
        for _ in 0..connections {
            all.push(self.connect().await?);
        }
        Ok(all)
    }
}

impl Shared {
    /// Opens a stream, and returns the response after its head arrived.
    ///
    /// # Errors
    /// When there is no response, or its status is not a success.
    pub(crate) async fn follow(&mut self, path: &str) -> Result<Incoming, Failure> {
        let request = Request::get(format!("{}{path}", self.server))
            .header(AUTHORIZATION, self.token.clone())
            .header(USER_AGENT, HeaderValue::from_static(AGENT))
            .body(Full::default())?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        match response.status() {
            status if status.is_success() => Ok(response.into_body()),
            status => Err(format!("GET {path}: {status}").into()),
        }
    }
}

impl Asked {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), body: Vec::new() }
    }

    pub(crate) fn post(path: impl Into<String>, body: Vec<u8>) -> Self {
        Self { method: Method::POST, path: path.into(), body }
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self { method: Method::DELETE, path: path.into(), body: Vec::new() }
    }

    /// A merge patch.
    pub(crate) fn patch(path: impl Into<String>, body: Vec<u8>) -> Self {
        Self { method: Method::PATCH, path: path.into(), body }
    }

    pub(crate) fn put(path: impl Into<String>, body: Vec<u8>) -> Self {
        Self { method: Method::PUT, path: path.into(), body }
    }
}

impl Connection {
    /// Sends a request, and returns the response after its head arrived.
    ///
    /// # Errors
    /// When there is no response, or its status is not a success.
    pub(crate) async fn start(&mut self, asked: Asked) -> Result<Response<Incoming>, Failure> {
        let Asked { method, path, body } = asked;
        let content =
            if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.host.clone())
            .header(AUTHORIZATION, self.token.clone())
            .header(USER_AGENT, HeaderValue::from_static(AGENT));
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, HeaderValue::from_static(content));
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        self.sender.ready().await?;
        let what = format!("{} {}", request.method(), request.uri());
        let response = self.sender.send_request(request).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        Err(format!("{what}: {status}: {}", String::from_utf8_lossy(&body)).into())
    }

    /// Sends a request, and returns the whole body.
    ///
    /// # Errors
    /// When there is no response, or its status is not a success.
    pub(crate) async fn ask(&mut self, asked: Asked) -> Result<Bytes, Failure> {
        Ok(self.start(asked).await?.into_body().collect().await?.to_bytes())
    }

    /// Sends a request, and counts the bytes of the body without keeping them.
    ///
    /// # Errors
    /// When there is no response, or its status is not a success.
    pub(crate) async fn count(&mut self, asked: Asked) -> Result<usize, Failure> {
        let mut body = self.start(asked).await?.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok(bytes)
    }
}

/// The first string under a key, in JSON without spaces. It must contain no escapes, and no earlier text may look like
/// the key. Full parsing would cost more than the server's work.
pub(crate) fn string<'a>(json: &'a [u8], key: &str) -> Option<&'a str> {
    let mut pieces = json.split(|byte| *byte == b'"');
    while pieces.find(|piece| *piece == key.as_bytes()).is_some() {
        if pieces.next()? == b":" {
            let value = pieces.next()?;
            // A connection without a proper end was cut.
            pieces.next()?;
            return str::from_utf8(value).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_string_of_a_key_is_found() {
        let json =
            br#"{"metadata":{"resourceVersion":"12","continue":""},"items":[{"resourceVersion":"7"}]}"#;
        assert_eq!(string(json, "resourceVersion"), Some("12"));
        assert_eq!(string(json, "continue"), Some(""));
        assert_eq!(string(json, "uid"), None);
        assert_eq!(string(br#"{"uid":"cut"#, "uid"), None);
        assert_eq!(string(br#"["uid",{"uid":{},"a":"uid","uid":"b"}]"#, "uid"), Some("b"));
    }
}

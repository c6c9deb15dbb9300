//! One connection to the server: opening it, and sending a request. The task that waits for a response or reads it
//! drives the connection, so that no other task has to be woken.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bowline_clock::{Clock, Instant};
use http::uri::Scheme;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::HttpConnector;
use kube::client::{Body, ConfigExt as _};
use rustls::ClientConfig;
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service as _;

use super::proxy::Proxy;
use super::request::may_list;
use super::socket::Socket;
use super::{RequestError, TransportError};
use crate::BoxError;

/// Maximum bytes of a response per read.
const MAX_READ: usize = 32 * 1024;

/// Idle time before the first keepalive probe.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Interval of keepalive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Unanswered keepalive probes after which a silent watch ends.
const KEEPALIVE_RETRIES: u32 = 3;

/// Maximum time until sent data is acknowledged.
#[cfg(target_os = "linux")]
const USER_TIMEOUT: Duration = Duration::from_secs(60);

/// Opens connections.
#[derive(Clone)]
pub(super) struct Connector {
    server: Uri,
    /// Name for people, without secrets in the address.
    name: String,
    http: HttpConnector,
    proxy: Option<Proxy>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    limit: Duration,
    clock: Clock,
}

impl Connector {
    /// `unusable` converts errors of credentials.
    pub(super) fn new(
        config: &kube::Config,
        limit: Duration,
        clock: Clock,
        unusable: impl FnOnce(kube::Error) -> TransportError,
    ) -> Result<Self, TransportError> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_keepalive(Some(KEEPALIVE));
        http.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
        http.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        #[cfg(target_os = "linux")]
        http.set_tcp_user_timeout(Some(USER_TIMEOUT));
        let proxy = Proxy::find(config, &http, |name| std::env::var(name).ok())?;
        let server = config.cluster_url.clone();
        let tls = if server.scheme() == Some(&Scheme::HTTP) {
            None
        } else {
            let client = config.rustls_client_config().map_err(unusable)?;
            Some((TlsConnector::from(Arc::new(client)), server_name(config)?))
        };
        let mut name = super::authority(config).to_owned();
        if let Some(proxy) = &proxy {
            name = format!("{name} through {}", proxy.name());
        }
        Ok(Self { server, name, http, proxy, tls, limit, clock })
    }

    /// Makes new connections use the client certificate of a resolver, which wraps the configured one. `None` without
    /// TLS.
    pub(super) fn identify<R: ResolvesClientCert + 'static>(
        &mut self,
        resolver: impl FnOnce(Arc<dyn ResolvesClientCert>) -> R,
    ) -> Option<Arc<R>> {
        let (tls, _) = self.tls.as_mut()?;
        let mut config = ClientConfig::clone(tls.config());
        let resolver = Arc::new(resolver(config.client_auth_cert_resolver));
        config.client_auth_cert_resolver = resolver.clone();
        // A resumed session would keep the certificate it began with.
        config.resumption = Resumption::disabled();
        *tls = TlsConnector::from(Arc::new(config));
        Some(resolver)
    }

    /// The server's name, for people.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) async fn connect(&self) -> Result<Connection, BoxError> {
        let connected = match self.clock.timeout(self.limit, self.try_connect()).await {
            Ok(connected) => connected,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long").into()),
        };
        connected.map_err(|source| RequestError::Connect { server: self.name.clone(), source }.into())
    }

    async fn try_connect(&self) -> Result<Connection, BoxError> {
        let stream = if let Some(proxy) = &self.proxy {
            let mut tunnel = proxy.tunnel();
            poll_fn(|cx| tunnel.poll_ready(cx)).await?;
            tunnel.call(proxy.server()).await?
        } else {
            let mut http = self.http.clone();
            poll_fn(|cx| http.poll_ready(cx)).await?;
            http.call(self.server.clone()).await?
        };
        let may_be_list = Arc::new(AtomicBool::new(false));
        let socket = Socket::new(stream.into_inner(), may_be_list.clone(), self.clock.clone());
        let stream = match &self.tls {
            None => Stream::Plain(socket),
            Some((tls, name)) => Stream::Tls(Box::new(tls.connect(name.clone(), socket).await?)),
        };
        let io = Io { stream, failure: None };
        let (sender, driver) = http1::Builder::new().max_buf_size(MAX_READ).handshake(io).await?;
        let driver: Driver = Box::pin(driver.with_upgrades());
        Ok(Connection { sender, driver: Some(driver), may_be_list, since: self.clock.now() })
    }
}

/// The name that the server's certificate must have.
fn server_name(config: &kube::Config) -> Result<ServerName<'static>, TransportError> {
    let host = config.cluster_url.host().unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = config.tls_server_name.as_deref().unwrap_or(host);
    ServerName::try_from(name.to_owned()).map_err(|_| TransportError::ServerName(name.to_owned()))
}

type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// Polls the driver. Ready when it has ended.
fn drive(driver: &mut Option<Driver>, cx: &mut Context<'_>) -> Poll<()> {
    if let Some(driving) = driver {
        ready!(driving.as_mut().poll(cx)).ok();
        *driver = None;
    }
    Poll::Ready(())
}

/// A connection for one request at a time.
pub(super) struct Connection {
    sender: http1::SendRequest<Body>,
    /// `None` when it is closed or upgraded.
    driver: Option<Driver>,
    /// Whether the response may be a list.
    may_be_list: Arc<AtomicBool>,
    /// Time of creation or last use.
    since: Instant,
}

impl Connection {
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    pub(super) fn used(&mut self, now: Instant) {
        self.since = now;
    }

    /// Whether it can probably carry another request. Registers no waker.
    pub(super) fn is_ready(&mut self) -> bool {
        let mut unwoken = Context::from_waker(Waker::noop());
        let is_open = drive(&mut self.driver, &mut unwoken).is_pending();
        is_open && matches!(self.sender.poll_ready(&mut unwoken), Poll::Ready(Ok(())))
    }

    /// Sends a request and waits for the head of the response. The error contains the request if nothing was sent.
    pub(super) async fn send(
        &mut self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Body>>> {
        self.may_be_list.store(may_list(&request), Ordering::Relaxed);
        // Without a real waker, tokio's cooperative budget could not wake this task.
        let answer = tokio::task::unconstrained(self.sender.try_send_request(request));
        let mut answer = std::pin::pin!(answer);
        poll_fn(|cx| {
            // Only driving the connection makes progress, and that happens here: with its own waker, the task would
            // wake itself, and another thread to run it.
            let mut unwoken = Context::from_waker(Waker::noop());
            if let Poll::Ready(answer) = answer.as_mut().poll(&mut unwoken) {
                return Poll::Ready(answer);
            }
            let is_open = drive(&mut self.driver, cx).is_pending();
            answer.as_mut().poll(if is_open { &mut unwoken } else { cx })
        })
        .await
    }

    /// Drives the connection. Ready when it is closed.
    pub(super) fn poll_drive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        drive(&mut self.driver, cx)
    }
}

/// The byte stream below HTTP.
struct Io {
    stream: Stream,
    /// An error that followed successfully read data.
    failure: Option<io::Error>,
}

enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl Stream {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        match self {
            Self::Plain(socket) => Pin::new(socket).poll_fill_buf(cx),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_fill_buf(cx),
        }
    }

    fn consume(&mut self, amount: usize) {
        match self {
            Self::Plain(socket) => Pin::new(socket).consume(amount),
            Self::Tls(stream) => Pin::new(&mut **stream).consume(amount),
        }
    }

    fn writer(&mut self) -> Pin<&mut (dyn AsyncWrite + Send + Unpin)> {
        match self {
            Self::Plain(socket) => Pin::new(socket),
            Self::Tls(stream) => Pin::new(&mut **stream),
        }
    }
}

impl Read for Io {
    /// Reads all available data, not only the first record.
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(failure) = this.failure.take() {
            return Poll::Ready(Err(failure));
        }
        let room = buffer.remaining();
        while buffer.remaining() > 0 {
            let is_first = buffer.remaining() == room;
            let unread = match this.stream.poll_fill(cx) {
                Poll::Ready(Ok(unread)) => unread,
                Poll::Pending if is_first => return Poll::Pending,
                Poll::Ready(Err(error)) if is_first => return Poll::Ready(Err(error)),
                Poll::Pending => break,
                Poll::Ready(Err(error)) => {
                    this.failure = Some(error);
                    break;
                }
            };
            let amount = unread.len().min(buffer.remaining());
            if amount == 0 {
                break;
            }
            buffer.put_slice(&unread[..amount]);
            this.stream.consume(amount);
        }
        Poll::Ready(Ok(()))
    }
}

impl Write for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.writer().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.writer().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.writer().poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use bowline_clock::{Progress, poll_cooperate};
    use kube::Config;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wakes {
        fn count(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A connection and its peer.
    async fn connected() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let connector =
            Connector::new(&Config::new(server), KEEPALIVE, Clock::real(), |error| panic!("{error}"))
                .unwrap();
        let connection = connector.connect().await.unwrap();
        (connection, listener.accept().await.unwrap().0)
    }

    async fn answer(peer: &mut TcpStream) {
        assert!(peer.read(&mut [0; 1024]).await.unwrap() > 0);
        peer.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
    }

    fn request() -> Request<Body> {
        Request::get("/").header("host", "a").body(Body::empty()).unwrap()
    }

    #[tokio::test]
    async fn a_sender_is_woken_only_by_its_response() {
        let (mut connection, mut peer) = connected().await;
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut cx = Context::from_waker(&waker);
        for _ in 0..3 {
            assert!(connection.is_ready());
            let before = wakes.count();
            let mut sending = Box::pin(connection.send(request()));
            assert!(sending.as_mut().poll(&mut cx).is_pending());
            assert_eq!(wakes.count(), before, "nothing came yet");
            answer(&mut peer).await;
            let woken = async {
                while wakes.count() == before {
                    tokio::task::yield_now().await;
                }
            };
            Clock::real().timeout(KEEPALIVE, woken).await.unwrap();
            let before = wakes.count();
            let Poll::Ready(Ok(answer)) = sending.as_mut().poll(&mut cx) else { panic!("no answer") };
            assert_eq!(answer.status(), 204);
            assert_eq!(wakes.count(), before, "it has its answer");
        }
    }

    #[tokio::test]
    async fn a_response_arrives_with_any_rest_of_the_cooperative_budget() {
        let (mut connection, mut peer) = connected().await;
        for spent in 0..200 {
            assert!(connection.is_ready());
            let mut sending = Box::pin(connection.send(request()));
            assert!(poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx).is_pending())).await);
            answer(&mut peer).await;
            let mut is_spent = false;
            let sent = poll_fn(|cx| {
                if !std::mem::replace(&mut is_spent, true) {
                    for _ in 0..spent {
                        let _had_some = poll_cooperate(cx).map(Progress::made_progress);
                    }
                }
                sending.as_mut().poll(cx)
            });
            let sent = Clock::real().timeout(Duration::from_secs(30), sent).await;
            assert_eq!(sent.unwrap().unwrap().status(), 204, "after {spent}");
        }
    }
}

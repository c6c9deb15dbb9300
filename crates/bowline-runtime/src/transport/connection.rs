//! One connection to the server: how it is made, and how a request goes over it. Nobody drives a connection but whoever
//! waits for its answer or reads it: no task has to be woken for what another one has read.

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
use rustls::pki_types::ServerName;
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service as _;

use super::proxy::Proxy;
use super::request::lists;
use super::socket::Socket;
use super::{RequestError, TransportError};
use crate::BoxError;

/// So much of an answer is handed on at once, at most.
const READ: usize = 32 * 1024;

/// After so long the system asks a silent server whether it is there,
const KEEPALIVE: Duration = Duration::from_secs(30);

/// and again so often,
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// and so many times, until a watch that hears nothing ends.
const KEEPALIVE_RETRIES: u32 = 3;

/// What was sent must have arrived after so long.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(60);

/// Makes connections.
#[derive(Clone)]
pub(super) struct Connector {
    server: Uri,
    /// As it is shown to people: without what may be secret in its address.
    name: String,
    http: HttpConnector,
    proxy: Option<Proxy>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    limit: Duration,
    clock: Clock,
}

impl Connector {
    pub(super) fn new(config: &kube::Config, limit: Duration, clock: Clock) -> Result<Self, TransportError> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_keepalive(Some(KEEPALIVE));
        http.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
        http.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        #[cfg(target_os = "linux")]
        http.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        let proxy = Proxy::find(config, &http, |name| std::env::var(name).ok())?;
        let server = config.cluster_url.clone();
        let tls = if server.scheme() == Some(&Scheme::HTTP) {
            None
        } else {
            let client = config.rustls_client_config().map_err(TransportError::Credentials)?;
            Some((TlsConnector::from(Arc::new(client)), server_name(config)?))
        };
        let mut name = super::authority(config).to_owned();
        if let Some(proxy) = &proxy {
            name = format!("{name} through {}", proxy.name());
        }
        Ok(Self { server, name, http, proxy, tls, limit, clock })
    }

    /// The server, for people.
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
        let may_rest = Arc::new(AtomicBool::new(false));
        let socket = Socket::new(stream.into_inner(), may_rest.clone(), self.clock.clone());
        let stream = match &self.tls {
            None => Stream::Plain(socket),
            Some((tls, name)) => Stream::Tls(Box::new(tls.connect(name.clone(), socket).await?)),
        };
        let io = Io { stream, failure: None };
        let (sender, driver) = http1::Builder::new().max_buf_size(READ).handshake(io).await?;
        let driver: Driver = Box::pin(driver.with_upgrades());
        Ok(Connection { sender, driver: Some(driver), may_rest, since: self.clock.now() })
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

/// Has a driver do what there is to do. Ready when it is over.
fn drive(driver: &mut Option<Driver>, cx: &mut Context<'_>) -> Poll<()> {
    if let Some(driving) = driver {
        ready!(driving.as_mut().poll(cx)).ok();
        *driver = None;
    }
    Poll::Ready(())
}

/// A connection that carries one request at a time.
pub(super) struct Connection {
    sender: http1::SendRequest<Body>,
    /// Nothing when it is closed, or speaks another protocol.
    driver: Option<Driver>,
    /// Whether the answer may be a list.
    may_rest: Arc<AtomicBool>,
    /// When it was made, or used last.
    since: Instant,
}

impl Connection {
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    pub(super) fn used(&mut self, now: Instant) {
        self.since = now;
    }

    /// Whether it can carry another request, as far as can be known without sending one. Nobody is woken when this changes.
    pub(super) fn is_ready(&mut self) -> bool {
        let mut unwoken = Context::from_waker(Waker::noop());
        let is_open = drive(&mut self.driver, &mut unwoken).is_pending();
        is_open && matches!(self.sender.poll_ready(&mut unwoken), Poll::Ready(Ok(())))
    }

    /// Sends a request and waits for the head of its answer. The error has the request when nothing of it was sent.
    pub(super) async fn send(
        &mut self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Body>>> {
        self.may_rest.store(lists(&request), Ordering::Relaxed);
        // A task that had its turn would be told so by the waker that it polls this with, which is none.
        let answer = tokio::task::unconstrained(self.sender.try_send_request(request));
        let mut answer = std::pin::pin!(answer);
        poll_fn(|cx| {
            // Only what drives the connection brings the answer, and that is done here: with its own waker, a task would be
            // woken by itself, and another thread to run it.
            let mut unwoken = Context::from_waker(Waker::noop());
            if let Poll::Ready(answer) = answer.as_mut().poll(&mut unwoken) {
                return Poll::Ready(answer);
            }
            let is_open = drive(&mut self.driver, cx).is_pending();
            answer.as_mut().poll(if is_open { &mut unwoken } else { cx })
        })
        .await
    }

    /// Does what there is to do. Ready when it is closed.
    pub(super) fn poll_drive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        drive(&mut self.driver, cx)
    }
}

/// What HTTP is spoken over.
struct Io {
    stream: Stream,
    /// What went wrong behind something that was read well.
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
    /// Takes all that is there, not only the first record.
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

    /// A connection, and the other end of it.
    async fn connected() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let connector = Connector::new(&Config::new(server), KEEPALIVE, Clock::real()).unwrap();
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
    async fn who_sends_a_request_is_woken_by_its_answer_only() {
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
    async fn an_answer_comes_however_little_is_left_of_a_tasks_turn() {
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
                        let _had_some = poll_cooperate(cx).map(Progress::made);
                    }
                }
                sending.as_mut().poll(cx)
            });
            let sent = Clock::real().timeout(Duration::from_secs(30), sent).await;
            assert_eq!(sent.unwrap().unwrap().status(), 204, "after {spent}");
        }
    }
}

//! The sockets of the replay server, and its responses.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline_clock::{Clock, Scope, Spawner};
use bytes::Bytes;
use futures::stream;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::frames::Recording;
use super::widget;
use crate::apiserver::client::Endpoint;
use crate::apiserver::load::Failure;

/// Number of buffered pieces for a watcher: enough that it never waits.
const PIECES_AHEAD: usize = 16;

/// Timeout of the start signal for a watcher.
const PATIENCE: Duration = Duration::from_secs(20);

/// Interval between updates with a rate.
const TICK: Duration = Duration::from_millis(5);
const TICKS_PER_SECOND: usize = 200;

/// Interval between updates with timestamps: in a burst, the last ones would be late. Timers have no finer resolution.
const FINE_TICK: Duration = Duration::from_millis(1);
const FINE_TICKS_PER_SECOND: usize = 1_000;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The server.
#[derive(Clone)]
pub(super) struct Replay {
    shared: Arc<Shared>,
}

struct Shared {
    recording: Recording,
    acceptor: TlsAcceptor,
    /// As PEM.
    authority: String,
    token: String,
    clock: Clock,
    spawner: Spawner,
    /// Number of watchers that wait for the start signal.
    waiting: watch::Sender<usize>,
    go: watch::Sender<Go>,
}

/// The start signal.
#[derive(Clone, Copy, Debug, Default)]
struct Go {
    /// Updates per second; `None` for as many as the watcher takes.
    rate: Option<usize>,
    /// Whether updates contain their send time; only with a rate.
    stamped: bool,
}

impl Replay {
    pub(super) fn new(scope: &Scope, recording: Recording) -> Result<Self, Failure> {
        let spawner = scope.spawner();
        let clock = spawner.clock().clone();
        let mut token = [0; 16];
        clock.rng().fill(&mut token);
        let (authority, certificate, key) = certificate(&clock)?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let shared = Shared {
            recording,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            authority,
            token: format!("{:032x}", u128::from_be_bytes(token)),
            clock,
            spawner,
            waiting: watch::Sender::new(0),
            go: watch::Sender::new(Go::default()),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    pub(super) fn endpoint(&self, address: SocketAddr) -> Endpoint {
        Endpoint {
            server: format!("https://{address}"),
            authority: self.shared.authority.clone(),
            token: self.shared.token.clone(),
        }
    }

    pub(super) async fn accept(self, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let replay = self.clone();
            self.shared.spawner.spawn("connection", async move {
                // Clients usually end by closing a stream.
                let _ = replay.connection(stream).await;
            });
        }
    }

    async fn connection(self, stream: TcpStream) -> Result<(), Failure> {
        stream.set_nodelay(true)?;
        let stream = self.shared.acceptor.accept(stream).await?;
        let service = service_fn(move |request| {
            let replay = self.clone();
            async move { Ok::<_, Infallible>(replay.answer(&request).await) }
        });
        Ok(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await?)
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Body> {
        let token = request
            .headers()
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        if token != Some(&self.shared.token) {
            return reply(StatusCode::UNAUTHORIZED, "no such token");
        }
        let query = request.uri().query().unwrap_or_default();
        match (request.method(), request.uri().path()) {
            (&Method::GET, widget::PATH) if is_true(query, "watch") => {
                self.watch(is_true(query, "sendInitialEvents"))
            }
            (&Method::GET, widget::PATH) => {
                json(Full::new(self.shared.recording.list.clone()).boxed_unsync())
            }
            (&Method::POST, "/go") => self.go(query).await,
            _ => reply(StatusCode::NOT_FOUND, "there is nothing but widgets"),
        }
    }

    fn watch(&self, initial: bool) -> Response<Body> {
        let (pieces, received) = mpsc::channel(PIECES_AHEAD);
        let playing = self.clone();
        self.shared.spawner.spawn("watch", async move {
            // Without a receiver there is nothing left to do.
            let _: Option<()> = playing.play(&pieces, initial).await;
        });
        let pieces = stream::unfold(received, |mut received| async {
            let piece: Bytes = received.recv().await?;
            Some((Ok(Frame::data(piece)), received))
        });
        json(StreamBody::new(pieces).boxed_unsync())
    }

    /// Sends events to a watcher until it disconnects, then returns `None`.
    async fn play(&self, pieces: &Sender<Bytes>, initial: bool) -> Option<()> {
        let Shared { recording, clock, go, .. } = &*self.shared;
        if initial {
            for piece in recording.initial.chunks() {
                pieces.send(piece).await.ok()?;
            }
        }
        let mut go = go.subscribe();
        let waiting = Waiting::new(&self.shared.waiting);
        tokio::select! {
            said = go.changed() => said.ok()?,
            () = pieces.closed() => return None,
        }
        drop(waiting);
        let Go { rate, stamped } = *go.borrow_and_update();
        match rate {
            None => {
                for piece in recording.updates.chunks() {
                    pieces.send(piece).await.ok()?;
                }
            }
            Some(rate) if stamped => self.play_stamped(pieces, rate).await?,
            Some(rate) => {
                let began = clock.now();
                for tick in 0.. {
                    // Both relative to the start, so that rounding errors do not add up.
                    let (from, until) =
                        (tick * rate / TICKS_PER_SECOND, (tick + 1) * rate / TICKS_PER_SECOND);
                    for piece in recording.updates.some(from, until - from) {
                        pieces.send(piece).await.ok()?;
                    }
                    clock.sleep_until(began + TICK * u32::try_from(tick + 1).ok()?).await;
                    if pieces.is_closed() {
                        return None;
                    }
                }
            }
        }
        // The watch stays open without further events.
        pieces.closed().await;
        None
    }

    /// Sends single updates at a rate, each with its send time, with the precision of timers.
    async fn play_stamped(&self, pieces: &Sender<Bytes>, rate: usize) -> Option<()> {
        let Shared { recording, clock, .. } = &*self.shared;
        let began = clock.now();
        for number in 0.. {
            let due = FINE_TICK * u32::try_from(number * FINE_TICKS_PER_SECOND / rate).ok()?;
            clock.sleep_until(began + due).await;
            let sent = clock.system_time().duration_since(SystemTime::UNIX_EPOCH).ok()?;
            pieces.send(widget::stamped(recording.updates.one(number), sent.as_nanos())).await.ok()?;
        }
        None
    }

    /// Gives the start signal when exactly one watcher waits for it: a subject's store can be ready before its watch is
    /// open, and the previous subject may still be connected.
    async fn go(&self, query: &str) -> Response<Body> {
        let rate = match value(query, "rate").map(str::parse) {
            None | Some(Ok(0)) => None,
            Some(Ok(rate)) => Some(rate),
            Some(Err(_)) => return reply(StatusCode::BAD_REQUEST, "rate is not a number"),
        };
        let mut waiting = self.shared.waiting.subscribe();
        let one = waiting.wait_for(|waiting| *waiting == 1);
        if !matches!(self.shared.clock.timeout(PATIENCE, one).await, Ok(Ok(_))) {
            let waiting = *self.shared.waiting.borrow();
            return reply(StatusCode::CONFLICT, &format!("{waiting} watchers wait, not one"));
        }
        self.shared.go.send_replace(Go { rate, stamped: is_true(query, "stamped") });
        reply(StatusCode::OK, "going")
    }
}

/// Marks one waiting watcher until it is dropped.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl<'a> Waiting<'a> {
    fn new(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

fn json(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn reply(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{text}\n"))).boxed_unsync());
    *response.status_mut() = status;
    response
}

/// The value of a key; the expected ones have no escapes.
fn value<'a>(query: &'a str, key: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
}

fn is_true(query: &str, key: &str) -> bool {
    matches!(value(query, key), Some("true" | "1"))
}

/// A certificate authority as PEM, and this server's certificate and key.
fn certificate(
    clock: &Clock,
) -> Result<(String, CertificateDer<'static>, PrivateKeyDer<'static>), rcgen::Error> {
    const DAY: Duration = Duration::from_hours(24);
    let valid = |mut params: CertificateParams| {
        params.not_before = (clock.system_time() - DAY).into();
        params.not_after = (clock.system_time() + DAY).into();
        params
    };
    let mut params = valid(CertificateParams::default());
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let mut params = valid(CertificateParams::new(["127.0.0.1".to_owned()])?);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &authority)?;
    Ok((authority.pem(), certificate.der().clone(), key.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::client::{Asked, Client};

    #[test]
    fn a_query_is_read_by_whole_keys() {
        assert!(is_true("allowWatchBookmarks=true&watch=1", "watch"));
        assert!(is_true("watch=true", "watch"));
        assert!(!is_true("rewatch=true&watch=false", "watch"));
        assert_eq!(value("a=1&rate=2000", "rate"), Some("2000"));
        assert_eq!(value("", "rate"), None);
    }

    /// Watches until this number of events has arrived, and starts the stream once the watch is open.
    async fn watched(client: &Client, query: &str, events: usize) -> Vec<String> {
        let mut connection = client.connect().await.unwrap();
        let path = format!("{}?watch=true{query}", widget::PATH);
        let mut body = connection.start(Asked::get(path)).await.unwrap().into_body();
        client.connect().await.unwrap().ask(Asked::post("/go?rate=0", Vec::new())).await.unwrap();
        let mut text = Vec::new();
        while memchr::memchr_iter(b'\n', &text).count() < events {
            text.extend_from_slice(body.frame().await.unwrap().unwrap().data_ref().unwrap());
        }
        String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_watch_is_of_what_is_there_if_asked_for_and_of_all_that_happens_after_the_word_go() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let scope = Clock::real().scope("test");
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let replay = Replay::new(&scope, Recording::new(20, 2)).unwrap();
            let endpoint = replay.endpoint(listener.local_addr().unwrap());
            scope.spawn("accept", replay.accept(listener));
            let client = Client::new(&endpoint, scope.spawner()).unwrap();

            let plain = watched(&client, "", 40).await;
            assert_eq!(plain.len(), 40);
            assert!(plain.iter().all(|event| event.starts_with(r#"{"type":"MODIFIED""#)));
            let whole = watched(&client, "&sendInitialEvents=true", 61).await;
            assert!(whole[..20].iter().all(|event| event.starts_with(r#"{"type":"ADDED""#)));
            assert!(whole[20].starts_with(r#"{"type":"BOOKMARK""#));
            assert_eq!(whole[21..], plain, "everybody is played the same");

            let stranger = Endpoint { token: "another".to_owned(), ..endpoint };
            let mut connection = Client::new(&stranger, scope.spawner()).unwrap().connect().await.unwrap();
            let refused = connection.ask(Asked::get(widget::PATH)).await.unwrap_err();
            assert!(refused.to_string().contains("401"), "{refused}");
        });
    }

    #[test]
    fn whoever_waits_is_counted_until_they_stop() {
        let count = watch::Sender::new(0);
        let one = Waiting::new(&count);
        let two = Waiting::new(&count);
        assert_eq!(*count.borrow(), 2);
        drop((one, two));
        assert_eq!(*count.borrow(), 0);
    }
}

//! Many requests on one connection.

use std::num::NonZeroUsize;
use std::time::Duration;

use bowline_apiserver::{ApiServer, ServeOptions, ServerHandle};
use bowline_clock::{Clock, Scope};
use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Connection, SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio_rustls::client::TlsStream;

use crate::plane::{PATIENCE, connect_with, serving, soon};

type Io = TokioIo<TlsStream<TcpStream>>;

async fn connect(serving: &ServerHandle) -> (SendRequest<String>, Connection<Io, String, TokioExecutor>) {
    let stream = connect_with(serving, &[b"h2"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("it is HTTP/2")
}

/// One that goes on in the scope.
async fn connect_in(scope: &Scope, serving: &ServerHandle) -> SendRequest<String> {
    let (sender, connection) = connect(serving).await;
    scope.spawn("connection", async move { drop(connection.await) });
    sender
}

async fn get(serving: &ServerHandle, sender: &mut SendRequest<String>, path: &str) -> Incoming {
    let token = serving.kubeconfig().token().expose();
    let request =
        Request::get(format!("https://localhost{path}")).header("authorization", format!("Bearer {token}"));
    let response = sender.send_request(request.body(String::new()).expect("a request")).await;
    let response = response.expect("an answer comes");
    assert_eq!(response.status(), 200, "{path}");
    response.into_body()
}

/// Without a connection.
fn maps(server: &ApiServer) -> Api<ConfigMap> {
    Api::namespaced(Client::new(server.clone(), "default"), "default")
}

fn server() -> ApiServer {
    ApiServer::builder().build().expect("a server can be built")
}

fn map(name: &str, length: usize) -> ConfigMap {
    let map = json!({"metadata": {"name": name}, "data": {"k": "v".repeat(length)}});
    serde_json::from_value(map).expect("it is a map")
}

/// The names in the first events.
async fn names(mut watch: Incoming, count: usize) -> Vec<String> {
    let mut bytes = Vec::new();
    while bytes.split(|byte| *byte == b'\n').count() <= count {
        let frame = watch.frame().await.expect("the watch goes on").expect("it can be read");
        bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    let events = serde_json::Deserializer::from_slice(&bytes).into_iter::<Value>();
    let name = |event: Value| event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    events.map(|event| name(event.expect("each line is an event"))).collect()
}

#[tokio::test]
async fn anonymous_streams_that_are_given_no_window_do_not_lock_others_out() {
    let options = ServeOptions::default().max_connections(NonZeroUsize::new(8).expect("8 is not 0"));
    let serving = serving(&server(), options).await;
    let scope = Clock::real().scope("test");
    let mut anonymous = Vec::new();
    for _ in 0..20 {
        let stream = TokioIo::new(connect_with(&serving, &[b"h2"]).await);
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let handshake = builder.initial_stream_window_size(0).handshake(stream).await;
        let (mut sender, connection) = handshake.expect("it is HTTP/2");
        scope.spawn("connection", async move { drop(connection.await) });
        let request = Request::get("https://localhost/healthz").body(String::new()).expect("a request");
        let response =
            soon(sender.send_request(request)).await.expect("it is answered").expect("it is taken");
        anonymous.push((sender, response));
    }
    let mut known = Box::pin(soon(connect_in(&scope, &serving))).await.expect("there is room");
    drop(soon(get(&serving, &mut known, "/api/v1/namespaces")).await.expect("it is answered"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_watches_on_a_connection_see_every_change() {
    let server = server();
    let serving = serving(&server, ServeOptions::default()).await;
    let scope = Clock::real().scope("test");
    let mut sender = connect_in(&scope, &serving).await;
    let mut watches = Vec::new();
    for _ in 0..30 {
        let path = "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0";
        watches.push(get(&serving, &mut sender, path).await);
    }
    let maps = maps(&server);
    // Frames of a few bytes, and such as have to be cut.
    let made: Vec<_> = (0..20).map(|number| format!("map-{number}")).collect();
    for (name, length) in made.iter().zip([1, 900, 40_000].into_iter().cycle()) {
        maps.create(&PostParams::default(), &map(name, length)).await.expect("it is made");
    }
    // All at once: an unread stream takes its share of the connection's window.
    let seen = futures::future::join_all(watches.into_iter().map(|watch| names(watch, made.len())));
    for seen in soon(seen).await.expect("they come") {
        assert_eq!(seen, made);
    }
}

#[tokio::test]
async fn a_server_that_stops_ends_what_goes_on_in_order() {
    let serving = serving(&server(), ServeOptions::default()).await;
    let scope = Clock::real().scope("test");
    let mut sender = connect_in(&scope, &serving).await;
    let watch = get(&serving, &mut sender, "/api/v1/namespaces?watch=1&resourceVersion=0").await;
    assert!(serving.stop(PATIENCE).await, "all connections end in time");
    let rest = soon(watch.collect()).await.expect("the watch ends");
    let rest = rest.expect("it ends without an error").to_bytes();
    assert_eq!(rest.last(), Some(&b'\n'), "what was there was sent, whole");
}

#[test]
fn a_client_that_never_reads_is_closed() {
    let runtime = |mut builder: Builder| builder.enable_all().build().unwrap();
    let (servers, clients) = (runtime(Builder::new_multi_thread()), runtime(Builder::new_current_thread()));
    let server = server();
    let options =
        ServeOptions::default().stalled(Duration::from_millis(200)).idle_timeout(Duration::from_millis(600));
    let serving = servers.block_on(serving(&server, options));
    let _watch = clients.block_on(async {
        let (mut sender, mut connection) = connect(&serving).await;
        let watch = tokio::select! {
            biased;
            watch = get(&serving, &mut sender, "/api/v1/configmaps?watch=1") => watch,
            _ = &mut connection => unreachable!("it is asked for something"),
        };
        (watch, sender, connection)
    });
    // The client's runtime stands still from here on: it reads nothing and answers no ping.
    let closed = async {
        let maps = maps(&server);
        while serving.connections() > 0 {
            maps.create(&PostParams::default(), &map("big", 900 * 1024)).await.expect("others go on");
            maps.delete("big", &DeleteParams::default()).await.expect("others go on");
        }
    };
    servers.block_on(async { soon(closed).await }).expect("the client is closed");
}

//! The transport against servers on sockets: retries, timeouts, and intact responses.

mod credentials;
mod fence;
mod limits;
mod plane;
mod proxy;
mod request_service;
mod server;

use std::time::Duration;

use bowline_runtime::Metrics;
use bowline_runtime::transport::{RequestError, TransportOptions};
use futures::TryStreamExt as _;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use server::{Act, Server, answer, chunk};
use tokio::io::AsyncReadExt as _;

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

async fn send(client: &Client, request: http::request::Builder) -> kube::Result<Response<Body>> {
    client.send(request.body(Body::from(b"{}".to_vec())).expect("it is a request")).await
}

async fn get(client: &Client, target: &str) -> kube::Result<Response<Body>> {
    client.send(Request::get(target).body(Body::empty()).expect("it is a request")).await
}

async fn text(response: Response<Body>) -> String {
    let bytes = response.into_body().collect().await.expect("it comes whole").to_bytes();
    String::from_utf8(bytes.to_vec()).expect("it is text")
}

fn ok() -> Act {
    Act::Say(answer("200 OK", "", "fine"))
}

fn busy(seconds: u64) -> Act {
    Act::Say(answer("429 Too Many Requests", &format!("retry-after: {seconds}\r\n"), "busy"))
}

#[tokio::test(start_paused = true)]
async fn a_read_is_retried_after_a_broken_connection() {
    let server = Server::start([Act::Close, Act::Close, ok()]).await;
    let response = get(&server.client(), "/api/v1/pods").await.unwrap();
    assert_eq!(text(response).await, "fine");
    let line = "GET /api/v1/pods HTTP/1.1".to_owned();
    assert_eq!(server.lines(), [(1, line.clone()), (2, line.clone()), (3, line)]);
}

#[tokio::test(start_paused = true)]
async fn an_endless_retry_after_does_not_panic() {
    let server = Server::start([busy(1), busy(u64::MAX), ok()]).await;
    let response = get(&server.client(), "/api/v1/pods").await.unwrap();
    assert_eq!(response.status(), 429, "the caller gets the refusal");
    assert_eq!(server.lines().len(), 2);
}

#[tokio::test]
async fn an_upgrade_gets_the_connection() {
    let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n";
    let server = Server::start([Act::Say(format!("{head}hello")), ok()]).await;
    let client = server.client();
    let request = Request::get("/exec").header("connection", "upgrade").header("upgrade", "other");
    let response = client.send(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 101);
    let mut upgraded = hyper_util::rt::TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    let mut bytes = [0; 5];
    upgraded.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"hello");
    // It is not reused for other requests.
    assert_eq!(text(get(&client, "/b").await.unwrap()).await, "fine");
    assert_eq!(server.lines()[1].0, 2);
}

#[tokio::test(start_paused = true)]
async fn reads_have_a_maximum_of_attempts() {
    let server = Server::start([]).await;
    get(&server.client(), "/api/v1/pods").await.unwrap_err();
    assert_eq!(server.lines().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_write_is_not_retried_after_a_broken_connection() {
    for request in [Request::post("/a"), Request::put("/a"), Request::patch("/a"), Request::delete("/a")] {
        let server = Server::start([Act::Close, ok()]).await;
        send(&server.client(), request).await.unwrap_err();
        assert_eq!(server.lines().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_uses_a_new_connection_if_the_idle_one_was_closed() {
    let goodbye = Act::Goodbye(answer("200 OK", "", "fine"));
    let server = Server::start([goodbye, ok()]).await;
    let client = server.client();
    assert_eq!(text(get(&client, "/a").await.unwrap()).await, "fine");
    // Shorter than the idle limit of connections.
    while server.open() > 0 {
        server.clock().sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(text(send(&client, Request::post("/b")).await.unwrap()).await, "fine");
    assert_eq!(server.lines(), [(1, "GET /a HTTP/1.1".to_owned()), (2, "POST /b HTTP/1.1".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_without_another_request() {
    let server = Server::start([ok()]).await;
    let client = server.client();
    assert_eq!(text(get(&client, "/a").await.unwrap()).await, "fine");
    server.clock().sleep(Duration::from_secs(59)).await;
    assert_eq!(server.open(), 1);
    server.clock().sleep(Duration::from_secs(20)).await;
    assert_eq!(server.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_reused_after_its_response_was_read() {
    let empty = || Act::Say(answer("200 OK", "", ""));
    let server = Server::start([ok(), empty(), ok(), ok()]).await;
    let client = server.client();
    for _ in 0..3 {
        text(get(&client, "/a").await.unwrap()).await;
    }
    let unread = get(&client, "/a").await.unwrap();
    assert_eq!(unread.status(), 200);
    let connections: Vec<_> = server.lines().into_iter().map(|(connection, _)| connection).collect();
    assert_eq!(connections, [1, 1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honored_for_any_verb() {
    let unavailable = Act::Say(answer("503 Service Unavailable", "retry-after: 2\r\n", ""));
    let server = Server::start([busy(1), unavailable, ok()]).await;
    let began = server.clock().now();
    let metrics = Metrics::new();
    let client = server.client_with(&TransportOptions::new(server.clock()).metrics(&metrics));
    let response = send(&client, Request::post("/a")).await.unwrap();
    assert_eq!(text(response).await, "fine");
    let took = server.clock().now().duration_since(began);
    assert!((3.0..3.7).contains(&took.as_secs_f64()), "{took:?}");
    let counted = metrics.encode();
    let line = |code: u16| format!("rest_client_request_retries_total{{code=\"{code}\",host=\"127.0.0.1:");
    assert!(counted.contains(&line(429)) && counted.contains(&line(503)), "{counted}");
    for code in [429, 503, 200] {
        let sent = counted.lines().find_map(|line| {
            let labels =
                line.strip_prefix(&format!("rest_client_requests_total{{code=\"{code}\",host=\"127.0.0.1:"))?;
            labels.split_once("\",method=\"POST\"} ")
        });
        assert_eq!(sent.map(|(_, count)| count), Some("1"), "{counted}");
    }
    // The rejection is read to its end.
    assert!(server.lines().iter().all(|(connection, _)| *connection == 1), "{:?}", server.lines());
}

#[tokio::test(start_paused = true)]
async fn the_last_rejection_is_returned() {
    let server = Server::start((0..9).map(|_| busy(1))).await;
    let response = get(&server.client(), "/a").await.unwrap();
    assert_eq!((response.status().as_u16(), text(response).await), (429, "busy".to_owned()));
    assert_eq!(server.lines().len(), 4);

    let server = Server::start([busy(3600), ok()]).await;
    assert_eq!(get(&server.client(), "/a").await.unwrap().status(), 429);
    assert_eq!(server.lines().len(), 1);

    let server = Server::start([busy(1), ok()]).await;
    let once = server.client_with(&TransportOptions::new(server.clock()).max_attempts(1));
    assert_eq!(get(&once, "/a").await.unwrap().status(), 429);
    assert_eq!(server.lines().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_rejection_without_retry_after_is_not_retried() {
    let server = Server::start([Act::Say(answer("409 Conflict", "retry-after: 1\r\n", ""))]).await;
    assert_eq!(send(&server.client(), Request::put("/a")).await.unwrap().status(), 409);
    let server = Server::start([Act::Say(answer("503 Service Unavailable", "", ""))]).await;
    assert_eq!(get(&server.client(), "/a").await.unwrap().status(), 503);
    let server = Server::start([busy(1)]).await;
    let evict = Request::post("/api/v1/namespaces/a/pods/b/eviction");
    assert_eq!(send(&server.client(), evict).await.unwrap().status(), 429);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_response_times_out_with_an_error() {
    let hour = Duration::from_secs(3600);
    let server = Server::start([Act::Tell(vec![(hour, answer("200 OK", "", "late"))])]).await;
    let began = server.clock().now();
    let error = send(&server.client(), Request::post("/a?x=secret")).await.unwrap_err();
    assert_eq!(server.clock().now().duration_since(began).as_secs(), 75);
    let kube::Error::Service(error) = error else { panic!("{error}") };
    assert!(matches!(error.downcast_ref(), Some(RequestError::Timeout { .. })));
    assert_eq!(error.to_string(), "POST /a: no response within 75s");
    assert_eq!(server.lines().len(), 1);

    let half = vec![(Duration::ZERO, CHUNKED.to_owned() + &chunk("half")), (hour, chunk("late"))];
    let server = Server::start([Act::Tell(half)]).await;
    let response = get(&server.client(), "/a").await.unwrap();
    response.into_body().collect().await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_slow_response_is_read_to_its_end_while_data_arrives() {
    let mut pieces = vec![(Duration::ZERO, CHUNKED.to_owned())];
    pieces.extend((0..5).map(|_| (Duration::from_secs(60), chunk("x"))));
    pieces.push((Duration::from_secs(60), chunk("")));
    let server = Server::start([Act::Tell(pieces)]).await;
    assert_eq!(text(get(&server.client(), "/a").await.unwrap()).await, "xxxxx");
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_be_silent_for_any_time() {
    let hour = Duration::from_secs(3600);
    let events =
        vec![(hour, CHUNKED.to_owned()), (hour, chunk("one\n")), (hour, chunk("two\n") + &chunk(""))];
    let server = Server::start([Act::Tell(events)]).await;
    let response = get(&server.client(), "/api/v1/pods?watch=true").await.unwrap();
    let pieces: Vec<_> = response.into_body().into_data_stream().try_collect().await.unwrap();
    assert_eq!(pieces, ["one\n", "two\n"]);
}

#[tokio::test(start_paused = true)]
async fn a_truncated_response_is_an_error() {
    let server =
        Server::start([Act::Tell(vec![(Duration::ZERO, CHUNKED.to_owned() + &chunk("half"))])]).await;
    let client = server.client();
    let response = get(&client, "/a?watch=true").await.unwrap();
    let mut body = response.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "half");
    drop(server);
    assert!(body.frame().await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn requests_have_a_user_agent_and_disable_compression() {
    let server = Server::start([ok()]).await;
    get(&server.client(), "/a").await.unwrap();
    let asked = server.asked.lock().unwrap()[0].1.clone();
    let agent = concat!("user-agent: bowline/", env!("CARGO_PKG_VERSION"));
    for line in [agent, "accept-encoding: identity", "host: 127.0.0.1:"] {
        assert!(asked.contains(line), "{line} in {asked}");
    }
}

#[tokio::test]
async fn a_long_response_in_small_chunks_arrives_intact() {
    let line = |number: usize| format!("{number:08} {}\n", "x".repeat(number % 3000));
    let pieces = (0..4000).map(|number| (Duration::ZERO, chunk(&line(number))));
    let pieces = std::iter::once((Duration::ZERO, CHUNKED.to_owned())).chain(pieces);
    let end = std::iter::once((Duration::ZERO, chunk("")));
    let server = Server::start([Act::Tell(pieces.chain(end).collect()), ok()]).await;
    let client = server.client();
    let received = text(get(&client, "/api/v1/pods").await.unwrap()).await;
    assert!(received == (0..4000).map(line).collect::<String>());
    assert_eq!(text(get(&client, "/a").await.unwrap()).await, "fine");
    assert!(server.lines().iter().all(|(connection, _)| *connection == 1), "{:?}", server.lines());
}

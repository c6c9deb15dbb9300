//! Limits of concurrent requests and waits, and their errors.

use std::time::Duration;

use bowline_runtime::Client;
use bowline_runtime::transport::{self, RequestError, Transport, TransportError, TransportOptions};
use bowline_workqueue::TokenBucket;
use http::Request;
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Config;

use super::server::{Act, Server, answer, chunk};
use super::{CHUNKED, get, ok, send, text};

const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn request_error(error: kube::Error) -> RequestError {
    let kube::Error::Service(error) = error else { panic!("{error}") };
    *error.downcast().expect("it is an error of the transport")
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_the_concurrency_limit_and_watches_do_not() {
    let watch = || Act::Tell(vec![(Duration::ZERO, CHUNKED.to_owned()), (HOUR, chunk("late"))]);
    let server = Server::start([watch(), watch(), watch(), ok(), ok(), ok()]).await;
    let client = server.client_with(&TransportOptions::new(server.clock()).max_concurrent_requests(2));
    let mut watches = Vec::new();
    for _ in 0..3 {
        watches.push(get(&client, "/api/v1/pods?watch=true").await.unwrap());
    }
    let first = get(&client, "/a").await.unwrap();
    let second = get(&client, "/b").await.unwrap();
    let mut third = Box::pin(get(&client, "/c"));
    assert!(server.clock().timeout(Duration::from_secs(1), &mut third).await.is_err());
    assert_eq!(server.lines().len(), 5, "{:?}", server.lines());
    drop(first);
    assert_eq!(text(third.await.unwrap()).await, "fine");
    drop(second);
}

#[tokio::test]
async fn responses_to_requests_of_a_kube_client_have_a_limit() {
    const ERROR: usize = 64 * 1024;
    const OBJECT: usize = 16 * 1024 * 1024;
    let say = |status: &str, bytes: usize| Act::Say(answer(status, "", &"x".repeat(bytes)));
    let server = Server::start([
        say("422 Unprocessable Entity", ERROR + 1),
        say("500 Internal Server Error", ERROR),
        say("200 OK", OBJECT + 1),
        say("200 OK", OBJECT),
        say("200 OK", OBJECT + 1),
    ])
    .await;
    let client = server.client();
    let (object, list) = ("/api/v1/namespaces/a/configmaps/b", "/api/v1/configmaps");
    for _ in 0..2 {
        assert_eq!(text(get(&client, object).await.unwrap()).await.len(), ERROR);
    }
    let error = get(&client, object).await.unwrap().into_body().collect().await.unwrap_err().to_string();
    assert!(error.contains("longer than 16 MiB"), "{error}");
    assert_eq!(text(get(&client, object).await.unwrap()).await.len(), OBJECT);
    assert_eq!(text(get(&client, list).await.unwrap()).await.len(), OBJECT + 1, "lists are read in pieces");
    // The rest of a response that is too long is not read, so its connection is closed.
    let connections: Vec<_> = server.lines().into_iter().map(|(connection, _)| connection).collect();
    assert_eq!(connections, [1, 2, 2, 3, 3]);
}

#[tokio::test]
async fn an_error_that_the_transport_cuts_keeps_its_kind() {
    let conflict = || Act::Say(answer("409 Conflict", "", &"x".repeat(100_000)));
    let server = Server::start([conflict(), conflict()]).await;
    let client = Client::builder(&server.transport()).clock(server.clock().clone()).build();
    let map: ConfigMap = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"},
    }))
    .unwrap();
    assert!(client.create(&map).await.unwrap_err().is_already_exists());
    assert!(client.update(&map).await.unwrap_err().is_conflict());
}

#[tokio::test(start_paused = true)]
async fn all_clients_together_keep_the_rate_limit() {
    let server = Server::start((0..8).map(|_| ok())).await;
    let rate = TokenBucket::new(2.0, 3).unwrap();
    let options = TransportOptions::new(server.clock()).rate(rate);
    let transport = Transport::new(&server.config(), &options).unwrap();
    let clients = [transport.client(), transport.client()];
    let began = server.clock().now();
    for number in 0..8 {
        text(get(&clients[number % 2], "/a").await.unwrap()).await;
    }
    // Three at once, then five more at two per second.
    let took = server.clock().now().duration_since(began);
    assert!(took >= Duration::from_millis(2500), "{took:?}");
    assert_eq!(server.lines().len(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_request_over_the_concurrency_limit_times_out_with_a_reason() {
    let half = || Act::Tell(vec![(Duration::ZERO, CHUNKED.to_owned()), (HOUR, chunk("late"))]);
    let server = Server::start([half(), ok()]).await;
    let client = server.client_with(&TransportOptions::new(server.clock()).max_concurrent_requests(1));
    let unread = get(&client, "/a").await.unwrap();
    let error = request_error(send(&client, Request::post("/b")).await.unwrap_err());
    assert!(matches!(error, RequestError::ConcurrencyLimit { .. }), "{error}");
    assert_eq!(server.lines().len(), 1);
    drop(unread);
    assert_eq!(text(send(&client, Request::post("/b")).await.unwrap()).await, "fine");
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_closed_after_a_timeout() {
    let silent = Act::Tell(vec![(HOUR, answer("200 OK", "", "late"))]);
    let pair = [ok(), ok(), silent, ok()];
    let server = Server::start(pair).await;
    // Shorter than the idle limit of connections.
    let options = TransportOptions::new(server.clock()).response_timeout(Duration::from_secs(20));
    let client = server.client_with(&options);
    // Two connections; one of them is used for the request without a response.
    let (first, second) = futures::join!(get(&client, "/a"), get(&client, "/b"));
    futures::join!(text(first.unwrap()), text(second.unwrap()));
    let error = request_error(get(&client, "/c").await.unwrap_err());
    assert!(matches!(error, RequestError::Timeout { .. }), "{error}");
    text(get(&client, "/d").await.unwrap()).await;
    let last = server.lines().pop().unwrap();
    assert_eq!(last, (3, "GET /d HTTP/1.1".to_owned()));
}

#[tokio::test]
async fn secrets_in_an_address_are_not_shown() {
    let clock = bowline_clock::Clock::real();
    let options = TransportOptions::new(&clock);
    // No process listens on port 1.
    let config = Config::new("http://user:secret@127.0.0.1:1/prefix".parse().unwrap());
    let client = transport::client(&config, &options).unwrap();
    let error = request_error(get(&client, "/a").await.unwrap_err());
    assert!(matches!(error, RequestError::Connect { .. }));
    assert_eq!(error.to_string(), "cannot connect to 127.0.0.1:1");
    let mut config = Config::new("https://user:secret@127.0.0.1:1".parse().unwrap());
    config.tls_server_name = Some("not a name".to_owned());
    let error = transport::client(&config, &options).err().unwrap();
    assert!(
        matches!(error, TransportError::ServerName(_)) && !error.to_string().contains("secret"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_for_an_object_named_like_a_stream_times_out() {
    let silent = Act::Tell(vec![(HOUR, answer("200 OK", "", "late"))]);
    let server = Server::start([silent]).await;
    let error =
        request_error(get(&server.client(), "/api/v1/namespaces/watch/configmaps/proxy").await.unwrap_err());
    assert!(matches!(error, RequestError::Timeout { .. }), "{error}");
}

//! Limits of concurrent requests and waits, and their errors.

use std::time::Duration;

use bowline_runtime::transport::{self, RequestError, Transport, TransportError, TransportOptions};
use bowline_workqueue::TokenBucket;
use http::Request;
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

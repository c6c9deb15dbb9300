//! How many requests may be under way, how long they may wait for what, and what is told of it.

use std::time::Duration;

use bowline_runtime::transport::{self, RequestError, Transport, TransportError, TransportOptions};
use bowline_workqueue::Bucket;
use http::Request;
use kube::Config;
use kube::config::{AuthInfo, ExecConfig};

use super::server::{Act, Server, answer, chunk};
use super::{CHUNKED, get, ok, send, text};

const HOUR: Duration = Duration::from_secs(3600);

fn told(error: kube::Error) -> RequestError {
    let kube::Error::Service(error) = error else { panic!("{error}") };
    *error.downcast().expect("it is an error of the transport")
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_their_turn_and_watches_do_not() {
    let watch = || Act::Tell(vec![(Duration::ZERO, CHUNKED.to_owned()), (HOUR, chunk("late"))]);
    let server = Server::start([watch(), watch(), watch(), ok(), ok(), ok()]).await;
    let client = server.client_with(&TransportOptions::new(server.clock()).requests(2));
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
async fn no_more_is_sent_in_a_second_than_the_rate_allows_by_all_clients_together() {
    let server = Server::start((0..8).map(|_| ok())).await;
    let rate = Bucket::new(2.0, 3).unwrap();
    let options = TransportOptions::new(server.clock()).rate(rate);
    let transport = Transport::new(&server.config(), &options).unwrap();
    let clients = [transport.client(), transport.client()];
    let began = server.clock().now();
    for number in 0..8 {
        text(get(&clients[number % 2], "/a").await.unwrap()).await;
    }
    // Three at once, and five more at two a second.
    let took = server.clock().now().since(began);
    assert!(took >= Duration::from_millis(2500), "{took:?}");
    assert_eq!(server.lines().len(), 8);
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_for_a_turn_is_told_what_for() {
    let half = || Act::Tell(vec![(Duration::ZERO, CHUNKED.to_owned()), (HOUR, chunk("late"))]);
    let server = Server::start([half(), ok()]).await;
    let client = server.client_with(&TransportOptions::new(server.clock()).requests(1));
    let unread = get(&client, "/a").await.unwrap();
    let error = told(send(&client, Request::post("/b")).await.unwrap_err());
    assert!(matches!(error, RequestError::Crowded { .. }), "{error}");
    assert_eq!(server.lines().len(), 1);
    drop(unread);
    assert_eq!(text(send(&client, Request::post("/b")).await.unwrap()).await, "fine");
}

#[tokio::test(start_paused = true)]
async fn kept_connections_are_closed_when_the_server_fell_silent() {
    let silent = Act::Tell(vec![(HOUR, answer("200 OK", "", "late"))]);
    let pair = [ok(), ok(), silent, ok()];
    let server = Server::start(pair).await;
    // Shorter than what makes a connection old.
    let options = TransportOptions::new(server.clock()).response_timeout(Duration::from_secs(20));
    let client = server.client_with(&options);
    // Two connections, of which one is used for the request that is not answered.
    let (first, second) = futures::join!(get(&client, "/a"), get(&client, "/b"));
    futures::join!(text(first.unwrap()), text(second.unwrap()));
    let error = told(get(&client, "/c").await.unwrap_err());
    assert!(matches!(error, RequestError::Silent { .. }), "{error}");
    text(get(&client, "/d").await.unwrap()).await;
    let last = server.lines().pop().unwrap();
    assert_eq!(last, (3, "GET /d HTTP/1.1".to_owned()));
}

#[tokio::test]
async fn credentials_that_do_not_come_are_not_waited_for_for_ever() {
    let server = Server::start([ok()]).await;
    let mut config = server.config();
    let marker = std::env::temp_dir().join(format!("bowline-credentials-{}", std::process::id()));
    // It answers at once the first time, with a token that is about to end; after that, not within the limit.
    let script = format!(
        r#"if [ -e '{0}' ]; then sleep 1; fi; touch '{0}'
echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"t","expirationTimestamp":"2020-01-01T00:00:00Z"}}}}'"#,
        marker.display()
    );
    config.auth_info = AuthInfo {
        exec: Some(
            serde_json::from_value::<ExecConfig>(serde_json::json!({
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": "/bin/sh",
                "args": ["-c", script],
                "interactiveMode": "Never",
            }))
            .unwrap(),
        ),
        ..AuthInfo::default()
    };
    let options = TransportOptions::new(server.clock()).response_timeout(Duration::from_millis(100));
    let client = transport::client(&config, &options).unwrap();
    for target in ["/api/v1/pods", "/api/v1/pods?watch=true"] {
        let error = told(get(&client, target).await.unwrap_err());
        assert!(matches!(error, RequestError::Credentials { .. }), "{error}");
    }
    std::fs::remove_file(&marker).unwrap();
    assert_eq!(server.lines().len(), 0);
}

#[tokio::test]
async fn what_is_secret_in_an_address_is_not_told() {
    let clock = bowline_clock::Clock::real();
    let options = TransportOptions::new(&clock);
    // Nobody listens on port 1.
    let config = Config::new("http://user:secret@127.0.0.1:1/prefix".parse().unwrap());
    let client = transport::client(&config, &options).unwrap();
    let error = told(get(&client, "/a").await.unwrap_err());
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
async fn an_object_that_is_called_as_a_stream_is_given_up_when_the_server_is_silent() {
    let silent = Act::Tell(vec![(HOUR, answer("200 OK", "", "late"))]);
    let server = Server::start([silent]).await;
    let error = told(get(&server.client(), "/api/v1/namespaces/watch/configmaps/proxy").await.unwrap_err());
    assert!(matches!(error, RequestError::Silent { .. }), "{error}");
}

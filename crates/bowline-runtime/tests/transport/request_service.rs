//! Operator clients directly on a transport behave like those on a kube client.

use std::time::Duration;

use bowline_cache::{ListQuery, ObjectKey};
use bowline_runtime::leader_election::FenceClosed;
use bowline_runtime::transport::{RequestError, RequestService, Transport, TransportOptions};
use bowline_runtime::{Client, ClientError};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::fence::candidate;
use super::server::{Act, Server, answer, chunk};
use super::{CHUNKED, busy};

fn client(server: &Server, route: impl Into<RequestService>) -> Client {
    Client::builder(route).clock(server.clock().clone()).build()
}

fn direct(server: &Server) -> Client {
    client(server, &server.transport())
}

fn key() -> ObjectKey {
    ObjectKey::new("default", "a")
}

fn map() -> ConfigMap {
    let metadata = json!({"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"});
    serde_json::from_value(json!({"metadata": metadata})).expect("it is one")
}

fn found() -> Act {
    let mut object = serde_json::to_value(map()).expect("it is JSON");
    object["kind"] = "ConfigMap".into();
    object["apiVersion"] = "v1".into();
    Act::Say(answer("200 OK", "", &object.to_string()))
}

/// The root cause of an error.
fn cause<E: std::error::Error + 'static>(error: &ClientError) -> Option<&E> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

#[tokio::test]
async fn reads_and_writes_share_the_connections_of_the_transport() {
    let status = json!({"kind": "Status", "code": 404, "reason": "NotFound", "details": {"name": "a"}});
    let gone = Act::Say(answer("404 Not Found", "", &status.to_string()));
    let list = Act::Tell(vec![
        (Duration::ZERO, CHUNKED.to_owned()),
        (
            Duration::ZERO,
            chunk(
                r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":["#,
            ),
        ),
        (Duration::from_millis(20), chunk(&serde_json::to_string(&map()).unwrap())),
        (Duration::ZERO, chunk("]}")),
        (Duration::ZERO, chunk("")),
    ]);
    let server = Server::start([found(), found(), gone, list, found()]).await;
    let transport = server.transport();
    let client = client(&server, &transport);
    assert_eq!(*client.get::<ConfigMap>(&key()).await.unwrap(), map());
    assert_eq!(client.update(&map()).await.unwrap(), map());
    assert!(client.find::<ConfigMap>(&key()).await.unwrap().is_none());
    assert_eq!(client.list::<ConfigMap>(&ListQuery::new()).await.unwrap().len(), 1);
    // The kube client uses the same transport.
    let maps = kube::Api::<ConfigMap>::namespaced(client.kube_client().clone(), "default");
    assert_eq!(maps.get("a").await.unwrap(), map());
    assert!(server.lines().iter().all(|(connection, _)| *connection == 1), "{:?}", server.lines());
}

#[tokio::test(start_paused = true)]
async fn safe_requests_are_retried() {
    let server = Server::start([Act::Close, found(), busy(1), found(), Act::Close]).await;
    let client = direct(&server);
    client.get::<ConfigMap>(&key()).await.unwrap();
    client.update(&map()).await.unwrap();
    let error = client.update(&map()).await.unwrap_err();
    assert!(matches!(error, ClientError::Transport { .. }) && error.is_retryable(), "{error:?}");
    assert_eq!(server.lines().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_response_times_out() {
    let server = Server::start([Act::Tell(vec![(Duration::from_secs(600), String::new())])]).await;
    let options =
        TransportOptions::new(server.clock()).response_timeout(Duration::from_secs(5)).max_attempts(1);
    let transport = Transport::new(&server.config(), &options).unwrap();
    let error = client(&server, &transport).get::<ConfigMap>(&key()).await.unwrap_err();
    assert!(matches!(cause(&error), Some(RequestError::Timeout { .. })), "{error:?}");
}

#[tokio::test]
async fn writes_pass_only_while_the_fence_is_open() {
    let server = Server::start([found(), found()]).await;
    let elector = candidate(server.clock());
    let client = client(&server, server.transport().fenced_route(elector.fence()));
    let refused = client.update(&map()).await.unwrap_err();
    assert!(cause::<FenceClosed>(&refused).is_some() && !refused.is_retryable(), "{refused:?}");
    client.get::<ConfigMap>(&key()).await.unwrap();
    let leadership = elector.acquire().await;
    client.update(&map()).await.unwrap();
    leadership.release().await;
    assert!(cause::<FenceClosed>(&client.update(&map()).await.unwrap_err()).is_some());
    assert_eq!(server.lines().len(), 2);
}

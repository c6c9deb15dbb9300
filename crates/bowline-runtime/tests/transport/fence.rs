//! A fenced client of the transport: what passes, and that each try is checked.

use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_clock::Clock;
use bowline_runtime::leader_election::{Elector, FenceClosed, LeaderElection};
use http::Request;
use kube::Client;

use super::server::{Act, Server};
use super::{busy, get, ok, send, text};

pub(super) fn candidate(clock: &Clock) -> Elector {
    let server = ApiServer::builder().clock(clock.clone()).build().expect("defaults are valid");
    let election = LeaderElection::new("default", "operator").identity("a");
    election.build(Client::new(server, "default"), clock).expect("defaults are valid")
}

fn is_closed(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Service(error) if error.is::<FenceClosed>())
}

#[tokio::test]
async fn writes_pass_only_while_the_fence_is_open_and_reads_always() {
    let server = Server::start([ok(), ok(), ok()]).await;
    let elector = candidate(server.clock());
    let transport = server.transport();
    let fenced = transport.fenced_client(elector.fence());
    assert!(is_closed(&send(&fenced, Request::post("/a")).await.unwrap_err()));
    assert_eq!(server.lines(), []);
    assert_eq!(text(get(&fenced, "/b").await.unwrap()).await, "fine");
    let leadership = elector.acquire().await;
    assert_eq!(text(send(&fenced, Request::post("/c")).await.unwrap()).await, "fine");
    leadership.release().await;
    assert!(is_closed(&send(&fenced, Request::delete("/d")).await.unwrap_err()));
    // Another client of the same transport is not fenced, and uses the same connection.
    assert_eq!(text(send(&transport.client(), Request::post("/e")).await.unwrap()).await, "fine");
    let lines: Vec<_> = server.lines();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|(connection, _)| *connection == 1), "{lines:?}");
}

#[tokio::test]
async fn a_write_that_a_server_asked_to_be_sent_again_is_not_when_the_fence_was_closed_meanwhile() {
    let server = Server::start([busy(1), ok()]).await;
    let elector = candidate(server.clock());
    let leadership = elector.acquire().await;
    let fenced = server.transport().fenced_client(elector.fence());
    let scope = server.clock().scope("writer");
    let write = scope.spawn("write", async move { send(&fenced, Request::post("/a")).await });
    while server.lines().is_empty() {
        server.clock().sleep(Duration::from_millis(1)).await;
    }
    leadership.release().await;
    // The same process leads again before the pause is over: this is another term.
    let _leadership = elector.acquire().await;
    assert!(is_closed(&write.await.unwrap().unwrap_err()));
    assert_eq!(server.lines().len(), 1);
}

#[tokio::test]
async fn a_write_that_is_not_answered_is_given_up_when_the_fence_is_closed() {
    let silent = Act::Tell(vec![(Duration::from_secs(60), String::new())]);
    let server = Server::start([silent]).await;
    let elector = candidate(server.clock());
    let leadership = elector.acquire().await;
    let fenced = server.transport().fenced_client(elector.fence());
    let begun = server.clock().now();
    let scope = server.clock().scope("writer");
    let write = scope.spawn("write", async move { send(&fenced, Request::post("/a")).await });
    while server.lines().is_empty() {
        server.clock().sleep(Duration::from_millis(1)).await;
    }
    leadership.release().await;
    assert!(is_closed(&write.await.unwrap().unwrap_err()));
    assert!(server.clock().now().since(begun) < Duration::from_secs(5));
}

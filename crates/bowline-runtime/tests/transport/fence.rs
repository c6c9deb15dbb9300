//! Fenced clients of a transport: which requests pass, and that each attempt is checked.

use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_clock::Clock;
use bowline_runtime::leader_election::{FenceClosed, LeaderElectionConfig, LeaderElector};
use http::Request;
use kube::Client;
use kube::client::Body;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::server::{Act, Server};
use super::{busy, get, ok, send, text};

pub(super) fn candidate(clock: &Clock) -> LeaderElector {
    let server = ApiServer::builder().clock(clock.clone()).build().expect("defaults are valid");
    let election = LeaderElectionConfig::new("default", "operator").identity("a");
    election.build(clock, Client::new(server, "default")).expect("defaults are valid")
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
    // Another client of the same transport has no fence, and uses the same connection.
    assert_eq!(text(send(&transport.client(), Request::post("/e")).await.unwrap()).await, "fine");
    let lines: Vec<_> = server.lines();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|(connection, _)| *connection == 1), "{lines:?}");
}

#[tokio::test]
async fn a_write_is_not_retried_after_the_fence_closed() {
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
    // The process leads again before the delay is over: another term.
    let _leadership = elector.acquire().await;
    assert!(is_closed(&write.await.unwrap().unwrap_err()));
    assert_eq!(server.lines().len(), 1);
}

#[tokio::test]
async fn a_write_without_a_response_fails_when_the_fence_closes() {
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
    assert!(server.clock().now().duration_since(begun) < Duration::from_secs(5));
}

#[tokio::test]
async fn exec_attach_port_forward_and_proxy_pass_only_while_the_fence_is_open() {
    let server = Server::start([ok()]).await;
    let elector = candidate(server.clock());
    let fenced = server.transport().fenced_client(elector.fence());
    let given = elector.fence().client(server.client());
    for client in [&fenced, &given] {
        for target in
            ["pods/b/exec?command=promote", "pods/b/attach", "pods/b/portforward", "services/b/proxy/"]
        {
            let error = get(client, &format!("/api/v1/namespaces/a/{target}")).await.unwrap_err();
            assert!(is_closed(&error), "{target}: {error}");
        }
        let upgrade = Request::get("/api/v1/a").header("connection", "upgrade").header("upgrade", "other");
        assert!(is_closed(&send(client, upgrade).await.unwrap_err()));
    }
    assert_eq!(server.lines(), []);
    let _leadership = elector.acquire().await;
    let answer = get(&fenced, "/api/v1/namespaces/a/services/b/proxy/").await.unwrap();
    assert_eq!(text(answer).await, "fine");
}

#[tokio::test]
async fn an_upgraded_connection_is_closed_when_its_term_ends() {
    let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n";
    let server = Server::start([Act::Echo(format!("{head}hello")), Act::Echo(head.to_owned())]).await;
    let elector = candidate(server.clock());
    let fenced = server.transport().fenced_client(elector.fence());
    let given = elector.fence().client(server.client());
    for (client, is_first) in [(&fenced, true), (&given, false)] {
        let leadership = elector.acquire().await;
        let request = Request::get("/api/v1/namespaces/a/pods/b/exec");
        let request = request.header("connection", "upgrade").header("upgrade", "other");
        let response = client.send(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 101);
        assert_eq!(response.headers()["upgrade"], "other", "the head is the server's");
        let mut upgraded = hyper_util::rt::TokioIo::new(hyper::upgrade::on(response).await.unwrap());
        let mut bytes = [0; 5];
        if is_first {
            upgraded.read_exact(&mut bytes).await.unwrap();
            assert_eq!(&bytes, b"hello", "data after the head");
        }
        upgraded.write_all(b"there").await.unwrap();
        upgraded.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"there");
        leadership.release().await;
        // The process leads again at once: another term.
        let leadership = elector.acquire().await;
        let mut rest = Vec::new();
        let closed = server.clock().timeout(Duration::from_secs(60), upgraded.read_to_end(&mut rest));
        assert_eq!(closed.await.expect("it is closed").unwrap_or_default(), 0);
        let server_closes = async {
            while server.open() > 0 {
                server.clock().sleep(Duration::from_millis(1)).await;
            }
        };
        server.clock().timeout(Duration::from_secs(60), server_closes).await.expect("the server closes");
        leadership.release().await;
    }
}

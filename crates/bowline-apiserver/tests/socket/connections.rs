//! Clients that do nothing, too little or too much, and others that are not to feel it.

use std::num::NonZeroUsize;
use std::time::Duration;

use bowline_apiserver::ServeOptions;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::plane::{PATIENCE, client, connect, get, plane, soon};

#[tokio::test]
async fn a_thousand_connections_that_send_nothing_hurt_nobody() {
    let serving = plane(ServeOptions::default()).await;
    let mut silent = Vec::new();
    for _ in 0..1000 {
        silent.push(TcpStream::connect(serving.address()).await.expect("it is taken"));
    }
    let namespaces: Api<Namespace> = Api::all(client(&serving.kubeconfig().to_yaml(), "bowline").await);
    for _ in 0..10 {
        namespaces.list(&ListParams::default()).await.expect("others go on");
    }
    assert!(serving.stop(PATIENCE).await, "they do not hold up the end");
}

#[tokio::test]
async fn one_connection_too_many_takes_the_place_of_the_oldest_that_is_silent() {
    let options = ServeOptions::default().max_connections(NonZeroUsize::new(3).expect("3 is not 0"));
    let serving = plane(options.first_request_timeout(PATIENCE * 10)).await;
    let namespaces: Api<Namespace> = Api::all(client(&serving.kubeconfig().to_yaml(), "bowline").await);
    namespaces.list(&ListParams::default()).await.expect("it is answered");
    let mut silent = Vec::new();
    for _ in 0..5 {
        silent.push(TcpStream::connect(serving.address()).await.expect("it is taken"));
    }
    for oldest in &mut silent[..3] {
        let read = soon(oldest.read(&mut [0; 1])).await.expect("it is closed");
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
    namespaces.list(&ListParams::default()).await.expect("who makes requests is not closed");
    assert_eq!(get(&serving, "/version", "").await.0, 200);
}

#[tokio::test]
async fn anonymous_clients_that_ask_for_health_do_not_lock_others_out() {
    let options = ServeOptions::default().max_connections(NonZeroUsize::new(8).expect("8 is not 0"));
    let serving = plane(options).await;
    let namespaces: Api<Namespace> = Api::all(client(&serving.kubeconfig().to_yaml(), "bowline").await);
    namespaces.list(&ListParams::default()).await.expect("it is answered");
    let mut anonymous = Vec::new();
    for _ in 0..20 {
        let mut stream = connect(&serving).await;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("the server listens");
        soon(stream.read_exact(&mut [0; 15])).await.expect("it is answered").expect("it is answered");
        anonymous.push(stream);
    }
    soon(namespaces.list(&ListParams::default())).await.expect("there is room").expect("it is not closed");
    let another: Api<Namespace> = Api::all(client(&serving.kubeconfig().to_yaml(), "bowline-token").await);
    soon(another.list(&ListParams::default()))
        .await
        .expect("there is room for one more")
        .expect("it is taken");
}

#[tokio::test]
async fn a_connection_that_makes_no_request_is_closed() {
    let serving = plane(ServeOptions::default().first_request_timeout(Duration::from_millis(50))).await;
    let mut before_handshake = TcpStream::connect(serving.address()).await.expect("it is taken");
    let mut halfway = connect(&serving).await;
    halfway.write_all(b"GET /version HTTP/1.1\r\nhost: ").await.expect("the server listens");
    let ended = async { (before_handshake.read(&mut [0; 1]).await, halfway.read(&mut [0; 1]).await) };
    let (first, second) = soon(ended).await.expect("both are closed");
    assert!(matches!(first, Ok(0) | Err(_)) && matches!(second, Ok(0) | Err(_)), "{first:?} {second:?}");
}

#[tokio::test]
async fn a_connection_that_is_idle_is_closed() {
    let serving = plane(ServeOptions::default().idle_timeout(Duration::from_millis(50))).await;
    let mut idle = connect(&serving).await;
    idle.write_all(b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("the server listens");
    let mut answer = Vec::new();
    let ended = soon(idle.read_to_end(&mut answer)).await;
    ended.expect("it is closed").ok();
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn a_watcher_that_never_reads_is_closed() {
    let serving = plane(ServeOptions::default().stalled(Duration::from_millis(200))).await;
    let mut watcher = connect(&serving).await;
    let token = serving.kubeconfig().token().expose();
    let request = format!(
        "GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    watcher.write_all(request.as_bytes()).await.expect("the server listens");
    watcher.read_exact(&mut [0; 12]).await.expect("the watch begins");
    let maps: Api<ConfigMap> =
        Api::namespaced(client(&serving.kubeconfig().to_yaml(), "bowline").await, "default");
    let closed = async {
        for number in 0.. {
            let map = json!({
                "metadata": {"name": format!("map-{number}")},
                "data": {"k": "v".repeat(900 * 1024)},
            });
            let map = serde_json::from_value(map).expect("it is a map");
            maps.create(&PostParams::default(), &map).await.expect("others go on");
            maps.delete(&format!("map-{number}"), &DeleteParams::default()).await.expect("others go on");
            // Only the client of the maps is left.
            if serving.connections() == 1 {
                break;
            }
        }
    };
    soon(closed).await.expect("the watcher is closed");
}

#[tokio::test]
async fn a_body_that_is_too_long_is_answered_although_it_is_still_being_sent() {
    let serving = plane(ServeOptions::default()).await;
    let mut stream = connect(&serving).await;
    let token = serving.kubeconfig().token().expose();
    let length = 5 * 1024 * 1024;
    let head = format!(
        "POST /api/v1/namespaces HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("the server listens");
    stream.write_all(&vec![b' '; length]).await.expect("the server takes it");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("Request entity too large: limit is 3145728"), "{answer}");
}

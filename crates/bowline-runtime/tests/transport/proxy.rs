//! Requests through an HTTP proxy.

use bowline_clock::{Clock, Scope};
use bowline_runtime::transport::{self, TransportOptions};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::server::Server;
use super::{get, ok, text};

/// A proxy that accepts one CONNECT per connection. Returns its address and the requests.
async fn proxy(scope: &Scope, answer: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = asked.clone();
    scope.spawn("proxy", async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.expect("a request has an end"));
            }
            let head = String::from_utf8(head).expect("it is text");
            let target = head.split(' ').nth(1).expect("a request has a target").to_owned();
            log.lock().expect("the lock is not poisoned").push(head);
            stream.write_all(answer.as_bytes()).await.expect("it is read");
            if answer.starts_with("HTTP/1.1 200") {
                let mut server = TcpStream::connect(target).await.expect("it listens");
                copy_bidirectional(&mut stream, &mut server).await.ok();
            }
        }
    });
    (address, asked)
}

#[tokio::test]
async fn requests_use_the_proxy_of_the_kubeconfig() {
    let server = Server::start([ok(), ok()]).await;
    let scope = Clock::real().scope("proxy");
    let (address, asked) = proxy(&scope, "HTTP/1.1 200 Connection established\r\n\r\n").await;
    let mut config = server.config();
    config.proxy_url = Some(format!("http://user:p%40ss@{address}").parse().unwrap());
    let client = transport::client(&config, &TransportOptions::new(server.clock())).unwrap();
    assert_eq!(text(get(&client, "/a").await.unwrap()).await, "fine");
    assert_eq!(text(get(&client, "/b").await.unwrap()).await, "fine");
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let server = config.cluster_url.authority().unwrap();
    assert!(asked[0].starts_with(&format!("CONNECT {server} HTTP/1.1\r\n")), "{asked:?}");
    // user:p@ss
    assert!(asked[0].contains("Proxy-Authorization: Basic dXNlcjpwQHNz\r\n"), "{asked:?}");
}

#[tokio::test]
async fn a_proxy_that_rejects_is_named_in_the_error() {
    let server = Server::start([ok()]).await;
    let scope = Clock::real().scope("proxy");
    let (address, _) = proxy(&scope, "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
    let mut config = server.config();
    config.proxy_url = Some(format!("http://user:secret@{address}").parse().unwrap());
    let client = transport::client(&config, &TransportOptions::new(server.clock())).unwrap();
    let kube::Error::Service(error) = get(&client, "/a").await.unwrap_err() else { panic!("another error") };
    let text = error.to_string();
    assert!(text.ends_with(&format!("through http://{address}")) && !text.contains("secret"), "{text}");
    assert_eq!(server.lines(), []);
}

//! Limits for clients, and the stop of a server.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use bowline_clock::Clock;
use bowline_runtime::server::{Request, Server, text};
use http::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::world::{PATIENCE, Running, ask_on, local, read_to_end, scope};

const SHORT: Duration = Duration::from_millis(200);

async fn serve(server: Server) -> Running {
    let scope = scope();
    let bound = server.bind(&scope.spawner()).await;
    Running::start(scope, bound)
}

/// `/echo` returns the body, `/panic` and `/panic-later` panic, `/never` never responds.
fn server() -> Server {
    Server::new("tests", local())
        .handler("/echo", |request: Request| async move { http::Response::new(request.into_body()) })
        .handler("/panic", |_| -> std::future::Ready<_> { panic!("at once") })
        .handler("/panic-later", |_| async { panic!("later") })
        .handler("/never", |_| std::future::pending())
}

/// Waits until the peer has closed the connection.
async fn closed(clock: &Clock, stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let read = clock.timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    // A reset is an end, too.
    drop(read.expect("it is closed"));
}

#[tokio::test]
async fn a_panic_of_a_handler_is_a_500_and_affects_no_other_request() {
    let server = serve(server()).await;
    let mut stream = server.connect().await;
    for path in ["/panic", "/panic-later", "/panic"] {
        assert_eq!(ask_on(&server.clock, &mut stream, path).await.status, 500, "{path}");
    }
    assert_eq!(ask_on(&server.clock, &mut stream, "/echo").await.status, 200);
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_dropped() {
    let server = serve(server().response_timeout(SHORT)).await;
    assert_eq!(server.get("/never").await.status, 503);
}

#[tokio::test]
async fn a_body_is_limited_in_size_and_time() {
    let server = serve(server().max_body(10).request_timeout(SHORT)).await;
    let post = |headers: &str, body: &str| {
        format!("POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n\r\n{body}")
    };
    let answer = server.say(&post("content-length: 10", "0123456789")).await;
    assert_eq!((answer.status, &*answer.body), (200, "0123456789"));
    assert_eq!(server.say(&post("content-length: 11", "01234567890")).await.status, 413);
    let chunked = post("transfer-encoding: chunked", "6\r\n012345\r\n6\r\n012345\r\n0\r\n\r\n");
    assert_eq!(server.say(&chunked).await.status, 413);
    assert_eq!(server.say(&post("content-length: 10", "012")).await.status, 408);
    assert_eq!(server.say(&post("transfer-encoding: chunked", "x\r\n")).await.status, 400);
}

#[tokio::test]
async fn all_bodies_together_are_limited_in_size() {
    let server = serve(server().max_bodies(10)).await;
    let post = |body: &str, length: usize| {
        format!(
            "POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    };
    let mut first = server.connect().await;
    first.write_all(post("01234", 6).as_bytes()).await.unwrap();
    // Until the first body has arrived, the second one may use the space.
    let refused = async {
        while server.say(&post("012345", 6)).await.status == 200 {
            server.clock.sleep(SHORT / 10).await;
        }
    };
    server.clock.timeout(PATIENCE, refused).await.expect("there is room for ten");
    assert_eq!(server.say(&post("012345", 6)).await.status, 503);
    assert_eq!(server.say(&post("01234", 5)).await.status, 200);
    first.write_all(b"5").await.unwrap();
    assert_eq!(read_to_end(&server.clock, &mut first).await.body, "012345");
    assert_eq!(server.say(&post("0123456789", 10)).await.status, 200, "all room is free again");
}

#[tokio::test]
async fn limits_may_have_maximum_values() {
    let long = Duration::MAX;
    let server =
        server().first_request_timeout(long).request_timeout(long).response_timeout(long).idle_timeout(long);
    assert_eq!(serve(server).await.get("/echo").await.status, 200);
}

#[tokio::test]
async fn invalid_requests_are_rejected() {
    let server = serve(server()).await;
    assert_eq!(server.say("nonsense\r\n\r\n").await.status, 400);
    assert_eq!(server.say("GET /echo HTTP/9.9\r\n\r\n").await.status, 400);
    assert_eq!(server.say("GET /echo HTTP/1.0\r\n\r\n").await.status, 200);
    let long = format!("GET /echo HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(1 << 20));
    let mut stream = server.connect().await;
    // It may be closed before everything was sent.
    let _ = stream.write_all(long.as_bytes()).await;
    closed(&server.clock, &mut stream).await;
    assert_eq!(server.get("/echo").await.status, 200);
}

#[tokio::test]
async fn incomplete_headers_and_silent_connections_time_out() {
    let server = serve(server().first_request_timeout(SHORT)).await;
    let [mut silent, mut slow] = [server.connect().await, server.connect().await];
    slow.write_all(b"GET /echo HTTP/1.1\r\nx: ").await.unwrap();
    closed(&server.clock, &mut silent).await;
    let drip = async {
        while slow.write_all(b"x").await.is_ok() {
            server.clock.sleep(SHORT / 10).await;
        }
    };
    server.clock.timeout(PATIENCE, drip).await.expect("it is cut");
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let server = serve(server().idle_timeout(SHORT)).await;
    let mut stream = server.connect().await;
    assert_eq!(ask_on(&server.clock, &mut stream, "/echo").await.status, 200);
    closed(&server.clock, &mut stream).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected() {
    let much = |_| async { text(StatusCode::OK, "x".repeat(64 << 20)) };
    let server = serve(server().handler("/much", much).idle_timeout(SHORT)).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /much HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    stream.read_exact(&mut [0]).await.expect("the answer has begun");
    assert_eq!(server.connections(), 1);
    let cut = async {
        while server.connections() > 0 {
            server.clock.sleep(SHORT / 10).await;
        }
    };
    server.clock.timeout(PATIENCE, cut).await.expect("it is cut");
}

#[tokio::test]
async fn requests_get_in_despite_any_number_of_idle_connections() {
    let patient =
        server().first_request_timeout(Duration::from_secs(3600)).request_timeout(Duration::from_secs(3600));
    let server = serve(patient.max_connections(NonZero::new(8).unwrap())).await;
    // Clients that send nothing, half a head, or half a body.
    for said in ["", "GET /echo HTT", "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n012"] {
        let mut waiting = Vec::new();
        for round in 0..40 {
            let mut stream = server.connect().await;
            stream.write_all(said.as_bytes()).await.unwrap();
            waiting.push(stream);
            assert_eq!(server.get("/echo").await.status, 200, "round {round} of {said:?}");
        }
        assert!(server.connections() <= 8);
    }
}

#[tokio::test]
async fn many_clients_at_once_are_all_answered() {
    let server = serve(server().max_connections(NonZero::new(16).unwrap())).await;
    let answers = futures::future::join_all((0..200).map(|_| server.get("/echo"))).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
}

#[tokio::test]
async fn a_stop_waits_for_requests_in_progress_and_closes_the_others() {
    let [begun, may_end] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
    let slow = {
        let (begun, may_end) = (begun.clone(), may_end.clone());
        move |_| {
            let (begun, may_end) = (begun.clone(), may_end.clone());
            async move {
                begun.add_permits(1);
                may_end.acquire().await.expect("it is open").forget();
                text(StatusCode::OK, "done")
            }
        }
    };
    let server = serve(server().handler("/slow", slow)).await;
    let clock = server.clock.clone();
    let [mut waiting, mut idle] = [server.connect().await, server.connect().await];
    assert_eq!(ask_on(&clock, &mut idle, "/echo").await.status, 200);
    waiting.write_all(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    begun.acquire().await.expect("it is open").forget();

    server.stop.cancel();
    closed(&clock, &mut idle).await;
    let refused = async {
        while TcpStream::connect(server.address).await.is_ok() {
            clock.sleep(SHORT / 10).await;
        }
    };
    clock.timeout(PATIENCE, refused).await.expect("new connections are rejected");
    may_end.add_permits(1);
    let answer = read_to_end(&clock, &mut waiting).await;
    assert_eq!((answer.status, &*answer.body), (200, "done"));
    server.stop().await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_idle_connections() {
    let [first, body, stop] = [Duration::from_secs(3600); 3];
    let server = serve(server().first_request_timeout(first).request_timeout(body).stop_timeout(stop)).await;
    let mut streams = Vec::new();
    for said in ["", "GET /echo HTT", "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n012"] {
        let mut stream = server.connect().await;
        stream.write_all(said.as_bytes()).await.unwrap();
        // Also on a connection with an earlier request.
        let mut again = server.connect().await;
        assert_eq!(ask_on(&server.clock, &mut again, "/echo").await.status, 200);
        again.write_all(said.as_bytes()).await.unwrap();
        streams.extend([stream, again]);
    }
    server.clock.sleep(SHORT).await;
    server.stop().await;
}

#[tokio::test]
async fn a_stop_cuts_off_slow_requests() {
    let server = serve(server().stop_timeout(SHORT)).await;
    let mut waiting = server.connect().await;
    waiting.write_all(b"GET /never HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    while server.connections() == 0 {
        server.clock.sleep(SHORT / 10).await;
    }
    let clock = server.clock.clone();
    server.stop().await;
    closed(&clock, &mut waiting).await;
}

#[tokio::test]
async fn a_server_ends_with_its_scope() {
    let scope = scope();
    let clock = scope.spawner().clock().clone();
    let bound = server().bind(&scope.spawner()).await.unwrap().unwrap();
    let address = bound.address();
    scope.spawn("server", bound.serve(CancellationToken::new()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    assert_eq!(ask_on(&clock, &mut stream, "/echo").await.status, 200);
    assert!(scope.drain(PATIENCE).await.is_clean());
    closed(&clock, &mut stream).await;
}

//! A running server, and a client that sends exactly the given bytes.

use std::net::SocketAddr;
use std::time::Duration;

use bowline_clock::{Clock, Scope, Task};
use bowline_runtime::server::{BindAddress, Bound, ServerError};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Limit for any wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The scope of a test.
pub(crate) fn scope() -> Scope {
    Clock::real().scope("test")
}

/// A free local port.
pub(crate) fn local() -> BindAddress {
    "127.0.0.1:0".parse().expect("it is an address")
}

/// A running server.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) stop: CancellationToken,
    pub(crate) clock: Clock,
    scope: Scope,
    task: Task<()>,
}

impl Running {
    pub(crate) fn start(scope: Scope, bound: Result<Option<Bound>, ServerError>) -> Self {
        let bound = bound.expect("it can be bound").expect("it is on");
        let (address, stop) = (bound.address(), CancellationToken::new());
        let task = scope.spawn("server", bound.serve(stop.clone()));
        Self { address, stop, clock: scope.spawner().clock().clone(), scope, task }
    }

    /// Requests a path, on a new connection.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[]).await
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n");
        for (name, value) in headers {
            request.extend([name, ": ", value, "\r\n"]);
        }
        self.say(&(request + "\r\n")).await
    }

    /// Sends any text on a new connection, and reads until it is closed.
    pub(crate) async fn say(&self, request: &str) -> Answer {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.expect("it listens");
        read_to_end(&self.clock, &mut stream).await
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }

    /// Number of open connections.
    pub(crate) fn connections(&self) -> usize {
        self.scope.running() - 1
    }

    /// Stops the server, and waits for its end.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.clock.timeout(PATIENCE, self.task).await.expect("it stops").expect("it did not panic");
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.lines().filter_map(|line| line.split_once(':'));
        headers.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

pub(crate) async fn read_to_end(clock: &Clock, stream: &mut (impl AsyncRead + Unpin)) -> Answer {
    let mut text = Vec::new();
    let read = stream.read_to_end(&mut text);
    clock.timeout(PATIENCE, read).await.expect("it is closed").expect("it can be read");
    parse(&text)
}

/// Requests a path on a persistent connection, and reads exactly one response.
pub(crate) async fn ask_on(
    clock: &Clock,
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    path: &str,
) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it listens");
    let mut text = Vec::new();
    loop {
        let read = stream.read_buf(&mut text);
        let read = clock.timeout(PATIENCE, read).await.expect("it answers").expect("it can be read");
        assert_ne!(read, 0, "closed after {:?}", String::from_utf8_lossy(&text));
        if !text.windows(4).any(|end| end == b"\r\n\r\n") {
            continue;
        }
        let answer = parse(&text);
        let length = answer.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        if answer.body.len() >= length {
            return answer;
        }
    }
}

fn parse(text: &[u8]) -> Answer {
    let text = String::from_utf8(text.to_vec()).expect("it is text");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer but {text:?}"));
    let (line, headers) = head.split_once("\r\n").unwrap_or((head, ""));
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("it has a status");
    Answer { status, headers: headers.to_owned(), body: body.to_owned() }
}

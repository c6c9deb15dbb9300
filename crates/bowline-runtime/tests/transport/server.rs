//! A server on a socket with scripted responses.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_clock::{Clock, Scope};
use bowline_runtime::transport::{self, Transport, TransportOptions};
use kube::{Client, Config};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// An action of the server after it has read a request.
pub(crate) enum Act {
    /// Sends a text, then waits for the next request.
    Say(String),
    /// Sends each text after a delay.
    Tell(Vec<(Duration, String)>),
    /// Sends a text, then closes the connection.
    Goodbye(String),
    /// Sends a text, then echoes all input.
    Echo(String),
    /// Closes the connection.
    Close,
}

/// The requests, with the numbers of their connections.
pub(crate) type Asked = Arc<Mutex<Vec<(usize, String)>>>;

pub(crate) struct Server {
    pub(crate) asked: Asked,
    address: String,
    clock: Clock,
    scope: Scope,
}

impl Server {
    /// Starts a server with one action per request, in this order.
    pub(crate) async fn start(acts: impl IntoIterator<Item = Act>) -> Self {
        let clock = Clock::real();
        let scope = clock.scope("server");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let acts = Arc::new(Mutex::new(acts.into_iter().collect::<VecDeque<_>>()));
        let asked = Asked::default();
        let (spawner, log, time) = (scope.spawner(), asked.clone(), clock.clone());
        scope.spawn("listener", async move {
            let mut number = 0;
            while let Ok((stream, _)) = listener.accept().await {
                number += 1;
                spawner.spawn("connection", serve(stream, number, acts.clone(), log.clone(), time.clone()));
            }
        });
        Self { asked, address, clock, scope }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn client(&self) -> Client {
        self.client_with(&TransportOptions::new(&self.clock))
    }

    pub(crate) fn client_with(&self, options: &TransportOptions) -> Client {
        transport::client(&self.config(), options).expect("the configuration is good")
    }

    pub(crate) fn transport(&self) -> Transport {
        Transport::new(&self.config(), &TransportOptions::new(&self.clock))
            .expect("the configuration is good")
    }

    pub(crate) fn config(&self) -> Config {
        Config::new(format!("http://{}", self.address).parse().expect("it is a URL"))
    }

    /// Number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.scope.running() - 1
    }

    /// The first line of each request, with the number of its connection.
    pub(crate) fn lines(&self) -> Vec<(usize, String)> {
        let asked = self.asked.lock().expect("the lock is not poisoned");
        let line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
        asked.iter().map(|(connection, text)| (*connection, line(text))).collect()
    }
}

async fn serve(
    mut stream: TcpStream,
    number: usize,
    acts: Arc<Mutex<VecDeque<Act>>>,
    asked: Asked,
    clock: Clock,
) {
    while let Some(request) = read_request(&mut stream).await {
        asked.lock().expect("the lock is not poisoned").push((number, request));
        let act = acts.lock().expect("the lock is not poisoned").pop_front();
        match act {
            Some(Act::Say(text)) => {
                if stream.write_all(text.as_bytes()).await.is_err() {
                    return;
                }
            }
            Some(Act::Tell(pieces)) => {
                for (pause, text) in pieces {
                    clock.sleep(pause).await;
                    if stream.write_all(text.as_bytes()).await.is_err() {
                        return;
                    }
                }
            }
            Some(Act::Goodbye(text)) => {
                stream.write_all(text.as_bytes()).await.ok();
                return;
            }
            Some(Act::Echo(text)) => {
                stream.write_all(text.as_bytes()).await.ok();
                let (mut reader, mut writer) = stream.split();
                tokio::io::copy(&mut reader, &mut writer).await.ok();
                return;
            }
            Some(Act::Close) | None => return,
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut text = Vec::new();
    loop {
        let mut bytes = [0; 1024];
        let read = stream.read(&mut bytes).await.ok().filter(|read| *read > 0)?;
        text.extend_from_slice(&bytes[..read]);
        let request = String::from_utf8_lossy(&text);
        let Some((head, body)) = request.split_once("\r\n\r\n") else { continue };
        let length =
            |line: &str| line.strip_prefix("content-length: ").and_then(|length| length.parse().ok());
        if body.len() >= head.lines().find_map(length).unwrap_or(0_usize) {
            return Some(request.into_owned());
        }
    }
}

/// A response on the wire.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}

/// A chunk of a chunked response.
pub(crate) fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

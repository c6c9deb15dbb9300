//! Connections without TLS and without a server: one thread writes the same bytes to all of them, and they are read
//! like the events of a watch. This measures the machine's share of the cost.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use super::load::Failure;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// The listener for the watchers.
pub(super) struct Listener(TcpListener);

/// The connections of all watchers.
pub(super) struct Bare(Vec<TcpStream>);

impl Listener {
    pub(super) fn bind() -> Result<Self, Failure> {
        Ok(Self(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?))
    }

    pub(super) fn address(&self) -> Result<SocketAddr, Failure> {
        Ok(self.0.local_addr()?)
    }

    /// Waits for this number of connections, and sends each the head of a watch response.
    pub(super) fn accept(self, watchers: usize) -> Result<Bare, Failure> {
        let accept = |_| {
            let (mut stream, _) = self.0.accept()?;
            stream.set_nodelay(true)?;
            stream.write_all(HEAD)?;
            Ok(stream)
        };
        Ok(Bare((0..watchers).map(accept).collect::<Result<_, Failure>>()?))
    }
}

impl Bare {
    /// Sends all of them the event of an object's change.
    pub(super) fn send(&mut self, object: &[u8]) -> Result<(), Failure> {
        let event = [br#"{"type":"MODIFIED","object":"#, object, b"}\n"].concat();
        let chunk = [format!("{:x}\r\n", event.len()).as_bytes(), &event, b"\r\n"].concat();
        for stream in &mut self.0 {
            stream.write_all(&chunk)?;
        }
        Ok(())
    }
}

//! The network between one replica and the server: it can be cut, and mended.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bowline_clock::{Clock, Scope};
use tokio::io::{AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The server learns so much later that a client is gone: by then it has read what the client sent last, and done it. Else
/// it would be a matter of luck what becomes of a request that nobody waits for.
const LINGER: Duration = Duration::from_millis(50);

/// How the network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// What is sent arrives.
    Whole,
    /// Nothing arrives, and nobody is told. What was sent meanwhile never does, and its connections are of no use later.
    Dark,
    /// Connections are reset, and none can be made.
    Reset,
}

/// A way to a server through one port of this machine. Gone when it is dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    network: watch::Sender<Network>,
    _scope: Scope,
}

impl Proxy {
    pub(crate) async fn start(clock: &Clock, server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (network, state) = watch::channel(Network::Whole);
        let scope = clock.scope("proxy");
        let spawner = scope.spawner();
        scope.spawn("listener", async move {
            while let Ok((client, _)) = listener.accept().await {
                let clock = spawner.clock().clone();
                spawner.spawn("connection", carry(client, server, state.clone(), clock));
            }
        });
        Ok(Self { address, network, _scope: scope })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn set(&self, network: Network) {
        self.network.send_replace(network);
    }
}

/// One connection, until its sides end it or the network does.
async fn carry(
    mut client: TcpStream,
    server: SocketAddr,
    mut network: watch::Receiver<Network>,
    clock: Clock,
) {
    let is_whole = *network.borrow_and_update() == Network::Whole;
    let mut server = if is_whole { TcpStream::connect(server).await.ok() } else { None };
    if let Some(server) = &mut server {
        tokio::select! {
            biased;
            _ = network.changed() => {}
            () = exchange(&mut client, server, &clock) => return,
        }
    }
    // Waits while nothing gets through and nobody is told. An error is the end of the proxy.
    let _ = network.wait_for(|network| *network != Network::Dark).await;
    // Closed with what nobody read in it, a socket is reset.
}

/// Carries bytes both ways.
async fn exchange(client: &mut TcpStream, server: &mut TcpStream, clock: &Clock) {
    for stream in [&*client, &*server] {
        // As the sockets themselves: what is sent is not held back to be joined with more.
        let _ = stream.set_nodelay(true);
    }
    let ((mut client, mut to_client), (mut server, mut to_server)) = (client.split(), server.split());
    let up = async {
        let _ = copy(&mut client, &mut to_server).await;
        clock.sleep(LINGER).await;
        let _ = to_server.shutdown().await;
    };
    let down = async {
        let _ = copy(&mut server, &mut to_client).await;
        let _ = to_client.shutdown().await;
    };
    tokio::join!(up, down);
}

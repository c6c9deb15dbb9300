//! The network between one replica and the server, which tests cut and restore.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bowline_clock::{Clock, Scope};
use tokio::io::{AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Delay before the server sees that a client is gone. Until then it has read and handled the client's last request, so
/// that the outcome does not depend on luck.
const LINGER: Duration = Duration::from_millis(50);

/// State of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// All bytes arrive.
    Whole,
    /// No byte arrives, and neither side sees an error. Bytes sent meanwhile are lost, and their connections stay
    /// unusable.
    Dark,
    /// Connections are reset, and new ones fail.
    Reset,
}

/// A proxy to a server on one port of this machine. Closed on drop.
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

/// Serves one connection until one side or the network ends it.
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
    // Waits while bytes are silently dropped. An error is the end of the proxy.
    let _ = network.wait_for(|network| *network != Network::Dark).await;
    // Closing a socket with unread bytes resets it.
}

/// Copies bytes both ways.
async fn exchange(client: &mut TcpStream, server: &mut TcpStream, clock: &Clock) {
    for stream in [&*client, &*server] {
        // No Nagle delay, as on the sockets themselves.
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

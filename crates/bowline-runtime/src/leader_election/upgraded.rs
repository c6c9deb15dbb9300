//! Upgraded connections of a term: exec, attach and port-forward are closed when the term ends.
//!
//! Owns the relay between the user of such a connection and the server. Only hyper can create its type for an upgraded
//! connection, so the relay gets one from an HTTP exchange in memory.

use std::io;
use std::time::Duration;

use bowline_clock::Clock;
use http::header::{CONNECTION, UPGRADE};
use http::{Request, Response};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use crate::BoxError;

/// Buffer size of the relay for each direction, in bytes.
const BUFFER: usize = 64 * 1024;

/// Time for which the server may continue after the user has closed its side.
const LINGER: Duration = Duration::from_secs(5);

/// The response of the exchange in memory.
const SWITCH: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: relay\r\n\r\n";

/// Replaces a response's upgraded connection with the near end of a relay. Pass the far end and the connection to
/// [`relay`].
pub(super) async fn interpose<B>(response: &mut Response<B>) -> Result<(OnUpgrade, DuplexStream), BoxError> {
    let server = hyper::upgrade::on(&mut *response);
    let (near, mut far) = tokio::io::duplex(BUFFER);
    let (mut sender, connection) = http1::handshake(TokioIo::new(near)).await?;
    let request = Request::get("/")
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, "relay")
        .body(Empty::<&[u8]>::new())?;
    let exchange = async {
        let mut answer = sender.send_request(request).await?;
        Ok::<_, BoxError>(hyper::upgrade::on(&mut answer))
    };
    let switch = async {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(far.read_u8().await?);
        }
        Ok(far.write_all(SWITCH).await?)
    };
    let drive = async { Ok(connection.with_upgrades().await?) };
    let (near, (), ()) = futures::try_join!(exchange, switch, drive)?;
    response.extensions_mut().insert(near);
    Ok((server, far))
}

/// Copies bytes both ways until one side ends. Then drops, and so closes, both connections.
pub(super) async fn relay(server: OnUpgrade, user: DuplexStream, clock: Clock) -> Result<(), BoxError> {
    let (mut from_server, mut to_server) = tokio::io::split(TokioIo::new(server.await?));
    let (mut from_user, mut to_user) = tokio::io::split(user);
    let down = async { tokio::io::copy(&mut from_server, &mut to_user).await };
    let up = async {
        tokio::io::copy(&mut from_user, &mut to_server).await?;
        to_server.shutdown().await?;
        clock.sleep(LINGER).await;
        Ok::<_, io::Error>(0)
    };
    tokio::select! {
        biased;
        ended = down => ended?,
        ended = up => ended?,
    };
    Ok(())
}

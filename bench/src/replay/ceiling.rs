//! The speed of the replay server with a client that only reads: an upper bound for all subjects.

use std::process::ExitCode;

use bowline_clock::Clock;
use http_body_util::BodyExt as _;

use super::{ROUNDS, widget};
use crate::apiserver::client::{Asked, Client};
use crate::apiserver::load::Failure;
use crate::companion::Companion;

/// Starts a server, reads all updates, and prints their number per second.
#[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53")]
pub(crate) fn main(n: usize) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let read = runtime.map_err(Failure::from).and_then(|runtime| runtime.block_on(read(n)));
    match read {
        Ok((lines, bytes, seconds)) => {
            let (rate, mebibytes) = (lines as f64 / seconds, bytes as f64 / seconds / 1024.0 / 1024.0);
            println!("{lines} updates in {seconds:.3} s: {rate:.0}/s, {mebibytes:.0} MiB/s");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn read(n: usize) -> Result<(usize, usize, f64), Failure> {
    let replay = Companion::replay(n).map_err(|error| error.to_string())?;
    let scope = Clock::real().scope("ceiling");
    let clock = scope.spawner().clock().clone();
    let client = Client::new(replay.endpoint(), scope.spawner())?;
    let watch = Asked::get(format!("{}?watch=true&resourceVersion=1000000", widget::PATH));
    let mut connection = client.connect().await?;
    let mut body = connection.start(watch).await?.into_body();
    let began = clock.now();
    client.connect().await?.ask(Asked::post("/go", Vec::new())).await?;
    let (mut lines, mut bytes) = (0, 0);
    while lines < n * ROUNDS {
        let frame = body.frame().await.ok_or("the watch ended")??;
        let Ok(data) = frame.into_data() else { continue };
        lines += memchr::memchr_iter(b'\n', &data).count();
        bytes += data.len();
    }
    Ok((lines, bytes, clock.now().duration_since(began).as_secs_f64()))
}

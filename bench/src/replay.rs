//! A server that plays the same watch to everybody: it lists a custom kind, and when told to go, streams updates of it,
//! as fast as they are taken or so many a second. It is a process of its own.
//!
//! Everything is rendered before it listens, so that all it does while a subject is measured is to encrypt and to write.

pub(crate) mod ceiling;
mod frames;
mod server;
pub(crate) mod widget;

use std::process::ExitCode;

use bowline_clock::Clock;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use self::frames::Recording;
use self::server::Replay;
use crate::apiserver::load::Failure;

/// How often each object is updated after the word go.
pub(crate) const ROUNDS: usize = 10;

/// Serves until stdin ends; the first line of stdout tells where.
pub(crate) fn main(n: usize) -> ExitCode {
    // Two watchers at once are not played to, so more threads would have nothing to do.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let served = runtime.map_err(Failure::from).and_then(|runtime| runtime.block_on(serve(n)));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(n: usize) -> Result<(), Failure> {
    let scope = Clock::real().scope("replay");
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let replay = Replay::new(&scope, Recording::new(n, ROUNDS))?;
    println!("{}", serde_json::to_string(&replay.endpoint(listener.local_addr()?))?);
    scope.spawn("accept", replay.accept(listener));
    // Whoever started it holds the other end: this ends with them, whatever they end by.
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    scope.abort();
    Ok(())
}

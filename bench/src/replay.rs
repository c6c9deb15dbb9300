//! A server that replays the same watch to every client: it lists a custom kind, and after a start request, streams
//! updates of it, as fast as clients read or at a given rate. It is a separate process.
//!
//! Everything is rendered before it listens, so that it only encrypts and writes while a subject is measured.

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

/// Number of updates of each object after the start signal.
pub(crate) const ROUNDS: usize = 10;

/// Serves until stdin ends; prints the endpoint to stdout first.
pub(crate) fn main(n: usize) -> ExitCode {
    // Only one watcher is served at once, so more threads would be idle.
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
    // The parent process holds the other end, so this process ends with it in any case.
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    scope.abort();
    Ok(())
}

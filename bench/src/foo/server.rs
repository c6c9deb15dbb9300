//! kube-apiserver and etcd for `foo-converge`, with the kind, for all runs.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bowline_clock::Scope;
use tokio::io::AsyncReadExt as _;

use super::object;
use crate::apiserver::Maker;
use crate::apiserver::client::Asked;
use crate::apiserver::load::Failure;
use crate::apiserver::server::Server;
use crate::execution;

/// Timeout for a kind to be served, and the interval of checks.
const PATIENCE: Duration = Duration::from_secs(30);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Serves until stdin ends; prints the endpoint to stdout when the kind is served.
pub(crate) fn main(programs: PathBuf) -> ExitCode {
    execution::ended(execution::block_on(move |scope| serve(scope, programs)))
}

async fn serve(scope: Scope, programs: PathBuf) -> Result<(), Failure> {
    let spawner = scope.spawner();
    let server = Server::start(&spawner, Maker::KubeApiserver, Some(&programs)).await?;
    let mut connection = server.client(&spawner)?.connect().await?;
    connection.ask(Asked::post(object::DEFINITIONS, object::definition())).await?;
    let served = async {
        while connection.ask(Asked::get(object::FOOS)).await.is_err() {
            spawner.clock().sleep(BETWEEN_LOOKS).await;
        }
    };
    spawner.clock().timeout(PATIENCE, served).await?;
    println!("{}", serde_json::to_string(&server.endpoint)?);
    // The parent process holds the other end, so this process ends with it in any case.
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    server.stop().await
}

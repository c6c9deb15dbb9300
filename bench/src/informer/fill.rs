//! kube-apiserver and etcd for `informer-sync`, filled once for all runs.

use std::path::PathBuf;
use std::process::ExitCode;

use bowline_clock::Scope;
use clap::ValueEnum as _;
use tokio::io::AsyncReadExt as _;

use super::{Resource, object};
use crate::apiserver::Maker;
use crate::apiserver::client::Asked;
use crate::apiserver::load::{Failure, Run};
use crate::apiserver::object::namespace;
use crate::apiserver::server::Server;
use crate::execution;

/// Number of connections that fill the server.
const FILLING: usize = 16;

/// Serves until stdin ends; prints the endpoint to stdout when all objects exist.
pub(crate) fn main(programs: PathBuf, n: usize) -> ExitCode {
    execution::ended(execution::block_on(move |scope| serve(scope, programs, n)))
}

async fn serve(scope: Scope, programs: PathBuf, n: usize) -> Result<(), Failure> {
    let server = Server::start(&scope.spawner(), Maker::KubeApiserver, Some(&programs)).await?;
    let run = Run { scope, n, maker: Maker::KubeApiserver, server };
    fill(&run).await?;
    println!("{}", serde_json::to_string(&run.server.endpoint)?);
    // The parent process holds the other end, so this process ends with it in any case.
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    run.server.stop().await
}

/// Creates all objects, and then writes the status of the Pods, with the field managers of a cluster.
async fn fill(run: &Run) -> Result<(), Failure> {
    let client = run.client()?;
    run.make_namespaces(&client).await?;
    let mut connections = client.connect_all(FILLING).await?;
    for resource in Resource::value_variants() {
        let create = |number| {
            Asked::post(
                collection(*resource, number) + "?fieldManager=kube-controller-manager",
                object::body(*resource, number),
            )
        };
        run.ask_all(&mut connections, run.n, create, |_| Some(())).await?;
    }
    let patch = |number| {
        let collection = collection(Resource::Pods, number);
        let path = format!("{collection}/{}/status?fieldManager=kubelet", object::name(number));
        Asked::patch(path, object::status(number))
    };
    run.ask_all(&mut connections, run.n, patch, |_| Some(())).await?;
    for resource in Resource::value_variants() {
        let path = format!("{}/{}", collection(*resource, 0), object::name(0));
        let bytes = connections[0].ask(Asked::get(path)).await?.len();
        eprintln!("{} {resource} of {bytes} bytes each", run.n);
    }
    Ok(())
}

fn collection(resource: Resource, number: usize) -> String {
    format!("/api/v1/namespaces/{}/{resource}", namespace(number))
}

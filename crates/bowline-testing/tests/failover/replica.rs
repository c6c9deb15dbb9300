//! What each replica does, as a process of its own: this test program once more. It stands for election, and while it leads
//! it writes as often as it can, through a client behind its fence.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bowline_clock::Clock;
use bowline_runtime::Signals;
use bowline_runtime::leader_election::LeaderElection;
use bowline_runtime::transport::{self, Transport, TransportOptions};
use http::HeaderValue;
use http::header::USER_AGENT;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

use crate::freeze;
use crate::record::AGENT;

/// Tells the process which replica it is.
pub(crate) const REPLICA: &str = "BOWLINE_FAILOVER_REPLICA";

/// The name of every lease here.
pub(crate) const LEASE: &str = "operator";

/// How many write at once.
pub(crate) const WORKERS: usize = 3;

/// So long does a worker rest between two writes.
const REST: Duration = Duration::from_millis(2);

/// So long do workers go on when the lease is lost.
const AFTERLIFE: Duration = Duration::from_millis(400);

/// What a replica is told.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Orders {
    pub(crate) identity: String,
    pub(crate) namespace: String,
    pub(crate) kubeconfig: PathBuf,
    /// Where the server is, seen from there.
    pub(crate) server: String,
    pub(crate) lease: Duration,
    pub(crate) renew: Duration,
    pub(crate) retry: Duration,
    /// Whether it freezes when all workers have passed the fence for the second time and none has sent yet.
    pub(crate) freezes: bool,
}

/// The name of a worker's object.
pub(crate) fn object(worker: usize) -> String {
    format!("task-{worker}")
}

/// Runs a replica until it is asked to end or has lost the lease, which is an error.
pub(crate) fn run(orders: &Orders) -> ExitCode {
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
    let freezes = orders.freezes.then(|| freeze::between_fence_and_socket(WORKERS));
    tracing_subscriber::registry().with(lines.with_filter(LevelFilter::INFO)).with(freezes).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match runtime.expect("there are threads").block_on(lead(orders)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn lead(orders: &Orders) -> bowline_runtime::Result<()> {
    let clock = Clock::real();
    let mut signals = Signals::listen()?;
    let mut config = transport::config(Some(&orders.kubeconfig)).await?;
    config.cluster_url = orders.server.parse()?;
    let agent = format!("{AGENT}{}", orders.identity);
    config.headers.push((USER_AGENT, HeaderValue::from_str(&agent)?));
    let options = TransportOptions::new(&clock);
    let elector = LeaderElection::new(&orders.namespace, LEASE)
        .identity(&orders.identity)
        .lease_duration(orders.lease)
        .renew_deadline(orders.renew)
        .retry_period(orders.retry)
        .build(transport::client(&config, &options)?, &clock)?;
    let leadership = tokio::select! {
        biased;
        () = signals.wait() => return Ok(()),
        leadership = elector.acquire() => leadership,
    };
    let workers = clock.scope("workers");
    let (spawner, fence) = (workers.spawner(), elector.fence());
    let transport = Transport::new(&config, &options)?;
    for worker in 0..WORKERS {
        if orders.freezes {
            // Each blocks its thread when it freezes, and nothing else must wait for that thread.
            let (config, options, fence) = (config.clone(), options.clone(), fence.clone());
            let (orders, stop) = (orders.clone(), spawner.cancellation());
            spawner.blocking("worker", move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(async {
                    let transport = Transport::new(&config, &options).map_err(io::Error::other)?;
                    work(transport.fenced_client(&fence), &orders, worker, &stop).await;
                    Ok::<_, io::Error>(())
                })
            });
        } else {
            let (client, orders, stop) =
                (transport.fenced_client(fence), orders.clone(), spawner.cancellation());
            spawner.spawn("worker", async move { work(client, &orders, worker, &stop).await });
        }
    }
    tokio::select! {
        biased;
        () = signals.wait() => {
            let drained = workers.drain(Duration::from_secs(10)).await;
            if !drained.is_clean() {
                return Err(io::Error::other(format!("{:?} did not end", drained.left())).into());
            }
            leadership.release().await;
            Ok(())
        }
        lost = leadership.hold() => {
            // Not all programs end at once, and their workers may go on. Nothing of it may reach the server.
            clock.sleep(AFTERLIFE).await;
            Err(lost.into())
        }
    }
}

/// Writes an object as often as it can.
async fn work(client: Client, orders: &Orders, worker: usize, stop: &CancellationToken) {
    let (clock, maps) = (Clock::real(), Api::namespaced(client, &orders.namespace));
    for count in 1.. {
        if stop.is_cancelled() {
            return;
        }
        if let Err(error) = write(&maps, &object(worker), &orders.identity, count).await {
            tracing::warn!(worker, %error, "cannot write");
            clock.sleep(10 * REST).await;
        }
        clock.sleep(REST).await;
    }
}

async fn write(maps: &Api<ConfigMap>, name: &str, identity: &str, count: u64) -> kube::Result<()> {
    let data = json!({"data": {"by": identity, "count": count.to_string()}});
    maps.patch(name, &PatchParams::default(), &Patch::Merge(data)).await.map(drop)
}

//! One replica, as a process: another run of this test program. It takes part in the election. While it leads, it
//! writes as often as it can, through a client behind its fence.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bowline_cache::{CacheOptions, ObjectKey, SelectionSettings, object_key};
use bowline_clock::Clock;
use bowline_runtime::leader_election::LeaderElectionConfig;
use bowline_runtime::transport::{self, Transport, TransportOptions};
use bowline_runtime::{Action, Client, Context, Manager, Patch, Result, Signals};
use http::HeaderValue;
use http::header::USER_AGENT;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PatchParams;
use kube::{Api, Config};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

use crate::freeze;
use crate::record::AGENT;

/// Environment variable with the replica's configuration.
pub(crate) const REPLICA: &str = "BOWLINE_FAILOVER_REPLICA";

/// Name of every lease here.
pub(crate) const LEASE: &str = "operator";

/// Number of concurrent writers.
pub(crate) const WORKERS: usize = 3;

/// Pause of a worker between two writes.
const REST: Duration = Duration::from_millis(2);

/// Time during which it tries to write on after it lost leadership.
const AFTERLIFE: Duration = Duration::from_millis(400);

/// Configuration of a replica.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Orders {
    pub(crate) identity: String,
    pub(crate) namespace: String,
    pub(crate) kubeconfig: PathBuf,
    /// URL of the server, as this replica sees it.
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

/// Runs a replica until it is stopped or has lost the lease, which is an error.
pub(crate) fn run(orders: &Orders) -> ExitCode {
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
    let freezes = orders.freezes.then(|| freeze::between_fence_and_socket(WORKERS));
    tracing_subscriber::registry().with(lines.with_filter(LevelFilter::INFO)).with(freezes).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let lead = async { if orders.freezes { orders.freeze().await } else { orders.manage().await } };
    match runtime.expect("there are threads").block_on(lead) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Orders {
    /// A usual operator: a manager with a controller.
    async fn manage(&self) -> Result<()> {
        let clock = Clock::real();
        let scope = clock.scope("replica");
        let namespaces = [(self.namespace.clone(), SelectionSettings::new())];
        let manager = Manager::builder(&scope.spawner(), self.config().await?)
            .cluster(|cluster| cluster.cache(CacheOptions::new().namespaces(namespaces)))
            .leader_election(self.election())
            .signals(Signals::listen()?)
            .build()?;
        let (identity, fenced) = (self.identity.clone(), Arc::new(OnceLock::new()));
        let theirs = fenced.clone();
        let controller = manager.controller::<ConfigMap>().concurrency(WORKERS);
        controller.register(move |ctx: Context, map: Arc<ConfigMap>| {
            let (identity, fenced) = (identity.clone(), theirs.clone());
            async move {
                fenced.get_or_init(|| ctx.client().clone());
                let count = map.data.as_ref().and_then(|data| data.get("count")?.parse::<u64>().ok());
                write(ctx.client(), &object_key(&*map), &identity, count.unwrap_or(0) + 1).await?;
                Ok::<_, bowline_runtime::Error>(Action::requeue_after(REST))
            }
        })?;
        let ended = manager.run().await;
        if let Some(client) = fenced.get() {
            self.live_on(&clock, client).await?;
        }
        Ok(ended?)
    }

    /// Not all programs end at once, so parts of it may go on. None of their requests may reach the server.
    async fn live_on(&self, clock: &Clock, client: &Client) -> Result<()> {
        let end = clock.now() + AFTERLIFE;
        for count in 0.. {
            let key = ObjectKey::new(&self.namespace, &object(count % WORKERS));
            if write(client, &key, &self.identity, 0).await.is_ok() {
                return Err(io::Error::other("a write passed, although this replica does not lead").into());
            }
            if clock.now() > end {
                break;
            }
            clock.sleep(REST).await;
        }
        Ok(())
    }

    /// Leads and writes without a manager, because every worker needs its own thread: each blocks its thread when it
    /// freezes, and nothing else may depend on that thread.
    async fn freeze(&self) -> Result<()> {
        let clock = Clock::real();
        let (config, options) = (self.config().await?, TransportOptions::new(&clock));
        let elector = self.election().build(&clock, transport::client(&config, &options)?)?;
        let leadership = elector.acquire().await;
        let workers = clock.scope("workers");
        for worker in 0..WORKERS {
            let (config, options) = (config.clone(), options.clone());
            let (fence, orders, stop) = (elector.fence().clone(), self.clone(), workers.cancellation());
            workers.spawn_blocking("worker", move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(async {
                    let clock = Clock::real();
                    let transport = Transport::new(&config, &options).map_err(io::Error::other)?;
                    let maps: Api<ConfigMap> =
                        Api::namespaced(transport.fenced_client(&fence), &orders.namespace);
                    while !stop.is_cancelled() {
                        let data = kube::api::Patch::Merge(data(&orders.identity, 0));
                        let written = maps.patch(&object(worker), &PatchParams::default(), &data).await;
                        tracing::info!(worker, is_written = written.is_ok(), "wrote");
                        clock.sleep(10 * REST).await;
                    }
                    Ok::<_, io::Error>(())
                })
            });
        }
        let lost = leadership.renew_until_lost().await;
        clock.sleep(AFTERLIFE).await;
        Err(lost.into())
    }

    fn election(&self) -> LeaderElectionConfig {
        LeaderElectionConfig::new(&self.namespace, LEASE)
            .identity(&self.identity)
            .lease_duration(self.lease)
            .renew_deadline(self.renew)
            .retry_period(self.retry)
    }

    /// A client through the proxy, with its identity on every request.
    async fn config(&self) -> Result<Config> {
        let mut config = transport::config(Some(&self.kubeconfig)).await?;
        config.cluster_url = self.server.parse()?;
        config.headers.push((USER_AGENT, HeaderValue::from_str(&format!("{AGENT}{}", self.identity))?));
        Ok(config)
    }
}

async fn write(client: &Client, key: &ObjectKey, identity: &str, count: u64) -> Result<()> {
    let patch = Patch::merge(&data(identity, count))?;
    client.patch::<ConfigMap>(key, &patch).await?;
    Ok(())
}

/// The written data.
fn data(identity: &str, count: u64) -> Value {
    json!({"data": {"by": identity, "count": count.to_string()}})
}

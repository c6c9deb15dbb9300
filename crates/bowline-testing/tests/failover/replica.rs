//! What each replica does, as a process of its own: this test program once more. It stands for election, and while it leads
//! it writes as often as it can, through a client behind its fence.

use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bowline_cache::{CacheOptions, ObjectKey, Settings, object_key};
use bowline_clock::Clock;
use bowline_runtime::leader_election::LeaderElection;
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

/// Tells the process which replica it is.
pub(crate) const REPLICA: &str = "BOWLINE_FAILOVER_REPLICA";

/// The name of every lease here.
pub(crate) const LEASE: &str = "operator";

/// How many write at once.
pub(crate) const WORKERS: NonZeroUsize = NonZeroUsize::new(3).expect("it is 3");

/// So long does a worker rest between two writes.
const REST: Duration = Duration::from_millis(2);

/// So long is it tried to write on when the replica does not lead any more.
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
    let freezes = orders.freezes.then(|| freeze::between_fence_and_socket(WORKERS.get()));
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
    /// An operator as others write them: a manager with a controller.
    async fn manage(&self) -> Result<()> {
        let clock = Clock::real();
        let scope = clock.scope("replica");
        let namespaces = [(self.namespace.clone(), Settings::new())];
        let manager = Manager::builder(&scope.spawner(), self.config().await?)
            .cluster(|cluster| cluster.cache(CacheOptions::new().namespaces(namespaces)))
            .leader_election(self.election())
            .signals(Signals::listen()?)
            .build()?;
        let (identity, fenced) = (self.identity.clone(), Arc::new(OnceLock::new()));
        let theirs = fenced.clone();
        let controller = manager.controller::<ConfigMap>().concurrency(WORKERS);
        controller.run(move |ctx: Context, map: Arc<ConfigMap>| {
            let (identity, fenced) = (identity.clone(), theirs.clone());
            async move {
                fenced.get_or_init(|| ctx.client().clone());
                let count = map.data.as_ref().and_then(|data| data.get("count")?.parse::<u64>().ok());
                write(ctx.client(), &object_key(&*map), &identity, count.unwrap_or(0) + 1).await?;
                Ok::<_, bowline_runtime::Error>(Action::requeue_after(REST))
            }
        })?;
        let ended = manager.start().await;
        if let Some(client) = fenced.get() {
            self.live_on(&clock, client).await?;
        }
        Ok(ended?)
    }

    /// Not all programs end at once, and something in them may go on. Nothing of it may reach the server.
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

    /// Leads and writes without a manager, because every worker is to have a thread of its own: each blocks it when it
    /// freezes, and nothing else must wait for that thread.
    async fn freeze(&self) -> Result<()> {
        let clock = Clock::real();
        let (config, options) = (self.config().await?, TransportOptions::new(&clock));
        let elector = self.election().build(transport::client(&config, &options)?, &clock)?;
        let leadership = elector.acquire().await;
        let workers = clock.scope("workers");
        for worker in 0..WORKERS.get() {
            let (config, options) = (config.clone(), options.clone());
            let (fence, orders, stop) = (elector.fence().clone(), self.clone(), workers.cancellation());
            workers.blocking("worker", move || {
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
        let lost = leadership.hold().await;
        clock.sleep(AFTERLIFE).await;
        Err(lost.into())
    }

    fn election(&self) -> LeaderElection {
        LeaderElection::new(&self.namespace, LEASE)
            .identity(&self.identity)
            .lease_duration(self.lease)
            .renew_deadline(self.renew)
            .retry_period(self.retry)
    }

    /// Through the proxy, and with its identity on every request.
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

/// What is written.
fn data(identity: &str, count: u64) -> Value {
    json!({"data": {"by": identity, "count": count.to_string()}})
}

//! The subject `bowline`: our own informer, with its defaults. The only file of the scenarios that uses `bowline-cache`
//! and our transport.

use std::fmt::Debug;
use std::time::Duration;

use bowline_cache::{Event, Kind, ObjectKey, SharedInformer};
use bowline_runtime::transport::{self, TransportOptions};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Client;
use serde::de::DeserializeOwned;

use super::events::{self, HANDLERS};
use super::subject::Run;
use super::sync::{Before, RELIST_CPU_S};
use super::{Resource, read};
use crate::apiserver::load::Failure;
use crate::process;
use crate::replay::widget::{self, Widget};
use crate::subject::Measured;

const GROUP_INDEX: &str = "group";

/// Interval between two checks whether a list is complete. Their cost counts as the list's.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

pub(super) async fn sync(run: &Run) -> Result<Measured, Failure> {
    match run.resource {
        Resource::Pods => sync_kind::<Pod>(run).await,
        Resource::ConfigMaps => sync_kind::<ConfigMap>(run).await,
    }
}

/// It drops managedFields by default, so `strip` makes no difference.
async fn sync_kind<K>(run: &Run) -> Result<Measured, Failure>
where
    K: kube::Resource<DynamicType = (), Scope: 'static>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let spawner = run.scope.spawner();
    let client = client(run)?;
    let before = Before::now(spawner.clock(), run.allocated);
    let informer = SharedInformer::builder(&spawner, Kind::<K>::typed()).client(client).build()?;
    informer.start();
    informer.wait_synced().await;
    let mut measured = before.synced(run.n).await?;
    if informer.indexer().len() < run.n {
        return Err(format!("{} objects in the indexer, not {}", informer.indexer().len(), run.n).into());
    }
    if run.allocated.is_none() {
        measured.insert(RELIST_CPU_S.to_owned(), relist(run, &informer).await?);
    }
    Ok(measured)
}

/// CPU of a second list without changes: a restarted informer lists again.
async fn relist<K>(run: &Run, informer: &SharedInformer<K>) -> Result<f64, Failure>
where
    K: kube::Resource + Send + Sync + 'static,
{
    informer.stop().await;
    let (lists, cpu) = (informer.stats().lists, process::cpu_seconds());
    informer.start();
    let spawner = run.scope.spawner();
    while informer.stats().lists == lists {
        spawner.clock().sleep(BETWEEN_LOOKS).await;
    }
    let used = process::cpu_seconds() - cpu;
    if informer.stats().failures > 0 {
        return Err("a list or a watch failed meanwhile".into());
    }
    Ok(used)
}

pub(super) async fn events(run: &Run) -> Result<Measured, Failure> {
    let informer = widgets(run)?;
    let mut seen = Vec::new();
    for _ in 0..HANDLERS {
        let (mut handler, sees) = events::handler(run.n, run.updates);
        seen.push(sees);
        informer.add_handler(move |event: &Event<Widget>| handler.see(event.object().change()));
    }
    informer.start();
    events::measure(run, seen).await
}

pub(super) async fn get(run: &Run) -> Result<Measured, Failure> {
    let informer = widgets(run)?;
    informer.start();
    informer.wait_synced().await;
    let keys: Vec<_> = (0..run.n).map(key).collect();
    let (lister, updated) = (informer.lister(), informer.lister());
    let read = move |number| {
        let found = lister.get(&keys[read::pick(number, keys.len())]);
        found.is_some_and(|widget| !widget.spec.group.is_empty())
    };
    read::measure(run, read, move || updated.get(&key(0)).is_some_and(|widget| widget.change() > 0)).await
}

pub(super) async fn index(run: &Run) -> Result<Measured, Failure> {
    let informer = widgets(run)?;
    informer.indexer().add_index(GROUP_INDEX, |widget| vec![widget.spec.group.clone()])?;
    informer.start();
    informer.wait_synced().await;
    let groups: Vec<_> = (0..widget::groups(run.n)).map(widget::group).collect();
    let (lister, updated, wanted) = (informer.lister(), informer.lister(), run.group);
    let read = move |number| {
        let found = lister.by_index(GROUP_INDEX, &groups[read::pick(number, groups.len())]);
        found.is_ok_and(|found| found.len() == wanted)
    };
    read::measure(run, read, move || updated.get(&key(0)).is_some_and(|widget| widget.change() > 0)).await
}

fn widgets(run: &Run) -> Result<SharedInformer<Widget>, Failure> {
    let builder = SharedInformer::builder(&run.scope.spawner(), Kind::<Widget>::typed());
    Ok(builder.client(client(run)?).build()?)
}

/// Uses our own transport, as an operator does.
fn client(run: &Run) -> Result<Client, Failure> {
    Ok(transport::client(&run.endpoint.config()?, &TransportOptions::new(run.scope.spawner().clock()))?)
}

fn key(number: usize) -> ObjectKey {
    ObjectKey::new(&widget::namespace(number), &widget::name(number))
}

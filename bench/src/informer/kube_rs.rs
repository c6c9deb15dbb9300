//! The subject `kube-rs`: a watcher with its defaults, and a reflector that stores its events.

use std::fmt::Debug;
use std::future::ready;
use std::sync::Arc;

use bowline_clock::Task;
use futures::{Stream, StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;

use super::events::{self, HANDLERS};
use super::subject::Run;
use super::sync::Before;
use super::{Resource, read};
use crate::apiserver::load::Failure;
use crate::replay::widget::{self, Widget};
use crate::subject::Measured;

/// Capacity of a handler's channel, before the watcher has to wait.
const BUFFER: usize = 4096;

/// Bounds that this scenario needs of a kind.
trait Kind: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static {}
impl<K> Kind for K where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

pub(super) async fn sync(run: &Run) -> Result<Measured, Failure> {
    match run.resource {
        Resource::Pods => sync_kind::<Pod>(run).await,
        Resource::ConfigMaps => sync_kind::<ConfigMap>(run).await,
    }
}

async fn sync_kind<K: Kind>(run: &Run) -> Result<Measured, Failure> {
    let api = Api::<K>::all(run.client()?);
    let before = Before::now(run.scope.spawner().clock(), run.allocated);
    let (store, writer) = reflector::store();
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let _reflecting = if run.strip {
        follow(run, kube::runtime::reflector(writer, events.modify(|o| o.managed_fields_mut().clear())))
    } else {
        follow(run, kube::runtime::reflector(writer, events))
    };
    store.wait_until_ready().await?;
    let measured = before.synced(run.n).await?;
    if store.len() < run.n {
        return Err(format!("{} objects in the store, not {}", store.len(), run.n).into());
    }
    Ok(measured)
}

/// One reflector with a subscriber per handler: the way of kube-rs to have several.
pub(super) async fn events(run: &Run) -> Result<Measured, Failure> {
    let api = Api::<Widget>::all(run.client()?);
    let (_store, writer) = reflector::store_shared::<Widget>(BUFFER);
    let mut seen = Vec::new();
    for _ in 0..HANDLERS {
        let mut objects = writer.subscribe().ok_or("a shared store that nobody can subscribe to")?;
        let (mut handler, sees) = events::handler(run.n, run.updates);
        seen.push(sees);
        run.scope.spawn("handler", async move {
            while let Some(object) = objects.next().await {
                handler.see(object.change());
            }
        });
    }
    let events = watcher(api, watcher::Config::default()).default_backoff().reflect_shared(writer);
    let _reflecting = follow(run, events);
    events::measure(run, seen).await
}

pub(super) async fn get(run: &Run) -> Result<Measured, Failure> {
    let store = widgets(run).await?;
    let key = |number: usize| ObjectRef::new(&widget::name(number)).within(&widget::namespace(number));
    let keys: Vec<ObjectRef<Widget>> = (0..run.n).map(key).collect();
    let (first, updated) = (keys[0].clone(), store.clone());
    let read = move |number| {
        let found = store.get(&keys[read::pick(number, keys.len())]);
        found.is_some_and(|widget| !widget.spec.group.is_empty())
    };
    read::measure(run, read, move || is_updated(&updated, &first)).await
}

/// kube-rs has no index, so this is a scan.
pub(super) async fn index(run: &Run) -> Result<Measured, Failure> {
    let store = widgets(run).await?;
    let groups: Vec<_> = (0..widget::groups(run.n)).map(widget::group).collect();
    let (first, updated) = (ObjectRef::new(&widget::name(0)).within(&widget::namespace(0)), store.clone());
    let wanted = run.group;
    let read = move |number| {
        let group = &groups[read::pick(number, groups.len())];
        let found: Vec<Arc<Widget>> = store.state().into_iter().filter(|w| w.spec.group == *group).collect();
        found.len() == wanted
    };
    read::measure(run, read, move || is_updated(&updated, &first)).await
}

fn is_updated(store: &Store<Widget>, key: &ObjectRef<Widget>) -> bool {
    store.get(key).is_some_and(|widget| widget.change() > 0)
}

/// A store with all widgets that receives their updates.
async fn widgets(run: &Run) -> Result<Store<Widget>, Failure> {
    let api = Api::<Widget>::all(run.client()?);
    let (store, writer) = reflector::store();
    let events = watcher(api, watcher::Config::default()).default_backoff();
    follow(run, kube::runtime::reflector(writer, events));
    store.wait_until_ready().await?;
    if store.len() != run.n {
        return Err(format!("{} widgets in the store, not {}", store.len(), run.n).into());
    }
    Ok(store)
}

/// Polls the stream until the run ends, and prints errors.
fn follow<K: 'static>(
    run: &Run,
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
) -> Task<()> {
    run.scope.spawn("reflector", async move {
        pin_mut!(events);
        let each = events.for_each(|event| {
            if let Err(error) = event {
                eprintln!("the watcher tells: {error}");
            }
            ready(())
        });
        each.await;
    })
}

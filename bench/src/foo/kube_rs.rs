//! The subject `kube-rs`: the sample controller on its `Controller`.
//!
//! One watch of the Deployments feeds a store for reads, and the triggers of their owners: the cheapest way in kube-rs.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_clock::Scope;
use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::PostParams;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::events::{Event, EventType, Recorder};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use tracing::{info, warn};

use super::object::{self, Foo, FooStatus};
use crate::apiserver::client::Endpoint;
use crate::apiserver::load::Failure;

/// Delay after a failure, doubled with each further failure of the same object, as in client-go.
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LAST_RETRY: Duration = Duration::from_secs(1000);

struct Context {
    client: Client,
    deployments: Store<Deployment>,
    recorder: Recorder,
    /// By uid.
    failures: Mutex<BTreeMap<String, u32>>,
}

#[derive(Debug)]
enum Error {
    Kube(kube::Error),
    NotOurs(String),
}

/// Starts it below a scope.
///
/// # Errors
/// When it cannot be built.
pub(super) fn start(scope: &Scope, endpoint: &Endpoint, workers: usize) -> Result<(), Failure> {
    let client = Client::try_from(endpoint.config()?)?;
    let (deployments, writer) = reflector::store();
    let owned = watcher(Api::<Deployment>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .touched_objects();
    let recorder = Recorder::new(client.clone(), object::COMPONENT.into());
    let context = Context { client: client.clone(), deployments, recorder, failures: Mutex::default() };
    let controller = Controller::new(Api::<Foo>::all(client), watcher::Config::default())
        .owns_stream(owned)
        .with_config(Config::default().concurrency(u16::try_from(workers)?))
        .run(reconcile, |owner, error, context| retry(&owner, error, &context), Arc::new(context));
    scope.spawn("controller", controller.for_each(|_| ready(())));
    Ok(())
}

async fn reconcile(owner: Arc<Foo>, context: Arc<Context>) -> Result<Action, Error> {
    let namespace = owner.namespace().unwrap_or_default();
    let parameters =
        PostParams { field_manager: Some(object::COMPONENT.to_owned()), ..PostParams::default() };
    let deployments = Api::<Deployment>::namespaced(context.client.clone(), &namespace);
    let found = context.deployments.get(&ObjectRef::new(&owner.spec.deployment_name).within(&namespace));
    let mut deployment = match found {
        Some(found) => found,
        None => Arc::new(deployments.create(&parameters, &object::deployment(&owner)).await?),
    };
    if !object::is_controlled(&deployment, &owner) {
        let note = object::resource_exists_note(&owner.spec.deployment_name);
        context.tell(&owner, EventType::Warning, object::RESOURCE_EXISTS, &note).await?;
        return Err(Error::NotOurs(note));
    }
    let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    if owner.spec.replicas.is_some() && owner.spec.replicas != replicas {
        let name = &owner.spec.deployment_name;
        deployment = Arc::new(deployments.replace(name, &parameters, &object::deployment(&owner)).await?);
    }
    let available_replicas = object::available(&deployment);
    if owner.status.clone().unwrap_or_default().available_replicas != available_replicas {
        let mut changed = Foo::clone(&owner);
        changed.status = Some(FooStatus { available_replicas });
        let foos = Api::<Foo>::namespaced(context.client.clone(), &namespace);
        foos.replace_status(&owner.name_any(), &parameters, &changed).await?;
    }
    context.tell(&owner, EventType::Normal, object::SYNCED, object::SYNCED_NOTE).await?;
    context.failures().remove(&owner.uid().unwrap_or_default());
    info!("{}", object::SYNCED_LINE);
    Ok(Action::await_change())
}

fn retry(owner: &Foo, error: &Error, context: &Context) -> Action {
    warn!(?error, "Error syncing; requeuing for later retry");
    let mut failures = context.failures();
    let failures = failures.entry(owner.uid().unwrap_or_default()).or_default();
    let delay = FIRST_RETRY.saturating_mul(2_u32.saturating_pow(*failures)).min(LAST_RETRY);
    *failures += 1;
    Action::requeue(delay)
}

impl Context {
    /// Writes an event, and waits for the response.
    async fn tell(&self, owner: &Foo, type_: EventType, reason: &str, note: &str) -> Result<(), Error> {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note.to_owned()),
            action: "Sync".to_owned(),
            secondary: None,
        };
        Ok(self.recorder.publish(&event, &owner.object_ref(&())).await?)
    }

    fn failures(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, u32>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Kube(error)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kube(error) => write!(f, "{error}"),
            Self::NotOurs(note) => f.write_str(note),
        }
    }
}

impl std::error::Error for Error {}

//! The subject `bowline`: the sample controller on our own libraries, with their default settings. The only file of the
//! scenario that knows them.

use std::num::NonZeroUsize;
use std::sync::Arc;

use bowline_cache::ObjectKey;
use bowline_clock::Scope;
use bowline_runtime::transport::{self, TransportOptions};
use bowline_runtime::{Action, Cluster, Context, Error, EventType};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use tracing::info;

use super::object::{self, Foo};
use crate::apiserver::client::Endpoint;
use crate::apiserver::load::Failure;

/// Starts it below a scope.
///
/// # Errors
/// When it cannot be made.
pub(super) fn start(scope: &Scope, endpoint: &Endpoint, workers: usize) -> Result<(), Failure> {
    let spawner = scope.spawner();
    let client = transport::client(&endpoint.config()?, &TransportOptions::new(spawner.clock()))?;
    let cluster = Cluster::new(&spawner, client)?;
    let controller = cluster
        .controller::<Foo>()
        .owns::<Deployment>()
        .named(object::COMPONENT)
        .concurrency(NonZeroUsize::new(workers).ok_or("there are no workers")?)
        .build(reconcile)?;
    cluster.start();
    scope.spawn("controller", async move {
        if let Err(error) = controller.run().await {
            eprintln!("error: {error}");
        }
    });
    Ok(())
}

async fn reconcile(context: Context, owner: Arc<Foo>) -> bowline_runtime::Result<Action> {
    let client = context.client().field_owner(object::COMPONENT);
    let namespace = owner.namespace().unwrap_or_default();
    let found = client.find(&ObjectKey::new(&namespace, &owner.spec.deployment_name)).await?;
    let mut deployment = match found {
        Some(found) => found,
        None => Arc::new(client.create(&object::deployment(&owner)).await?),
    };
    if !object::is_controlled(&deployment, &owner) {
        let note = object::resource_exists_note(&owner.spec.deployment_name);
        context.recorder().event(&owner, EventType::Warning, object::RESOURCE_EXISTS, note.as_str());
        return Err(Error::message(note));
    }
    let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    if owner.spec.replicas.is_some() && owner.spec.replicas != replicas {
        deployment = Arc::new(client.update(&object::deployment(&owner)).await?);
    }
    let available = object::available(&deployment);
    client.update_status(&owner, |status| status.available_replicas = available).await?;
    context.recorder().event(&owner, EventType::Normal, object::SYNCED, object::SYNCED_NOTE);
    info!("{}", object::SYNCED_LINE);
    Ok(Action::done())
}

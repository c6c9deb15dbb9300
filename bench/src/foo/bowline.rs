//! The subject `bowline`: the sample controller on our own libraries, with their defaults except that Deployments are
//! cached packed. The only file of the scenario that uses them.

use std::sync::Arc;

use bowline_cache::{Kind, ObjectKey};
use bowline_clock::Scope;
use bowline_runtime::leader_election::LeaderElectionConfig;
use bowline_runtime::transport::{Transport, TransportOptions};
use bowline_runtime::{Action, Cluster, Context, Error, EventType, Manager};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use tracing::info;

use super::object::{self, Foo};
use crate::apiserver::client::Endpoint;
use crate::apiserver::load::Failure;

/// Starts it below a scope.
///
/// # Errors
/// When it cannot be built.
pub(super) fn start(scope: &Scope, endpoint: &Endpoint, workers: usize) -> Result<(), Failure> {
    let spawner = scope.spawner();
    let transport = Transport::new(&endpoint.config()?, &TransportOptions::new(spawner.clock()))?;
    let cluster = Cluster::new(&spawner, &transport)?;
    let controller = cluster
        .controller::<Foo>()
        // There is one per Foo, and each is read two or three times.
        .owns_with(Kind::packed::<Deployment>(), |watch| watch)
        .named(object::COMPONENT)
        .concurrency(workers)
        .build(reconcile)?;
    cluster.start();
    scope.spawn("controller", async move {
        if let Err(error) = controller.run().await {
            eprintln!("error: {error}");
        }
    });
    Ok(())
}

/// Starts it below a manager, with two more controllers that do little, with or without an election.
///
/// # Errors
/// When it cannot be built.
pub(super) fn start_managed(
    scope: &Scope,
    endpoint: &Endpoint,
    workers: usize,
    is_elected: bool,
) -> Result<(), Failure> {
    let spawner = scope.spawner();
    let mut manager = Manager::builder(&spawner, endpoint.config()?);
    if is_elected {
        // A new lease per run: that of an ended process stays held for a while.
        let lease = format!("{}-{:016x}", object::COMPONENT, spawner.clock().rng().next_u64());
        manager = manager.leader_election(LeaderElectionConfig::new("default", lease));
    }
    let manager = manager.build()?;
    manager
        .controller::<Foo>()
        .owns::<Deployment>()
        .named(object::COMPONENT)
        .concurrency(workers)
        .register(reconcile)?;
    manager.controller::<Deployment>().named("deployments").register(look_at::<Deployment>)?;
    manager.controller::<ConfigMap>().named("config-maps").register(look_at::<ConfigMap>)?;
    scope.spawn("manager", async move {
        if let Err(error) = manager.run().await {
            eprintln!("error: {error}");
        }
    });
    Ok(())
}

/// The work of the other controllers.
async fn look_at<K>(_: Context, _: Arc<K>) -> bowline_runtime::Result<Action> {
    Ok(Action::done())
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

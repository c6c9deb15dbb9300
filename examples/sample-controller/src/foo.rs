//! The kind Foo and its controller: a `Foo` names a Deployment, and gets it.
//!
//! ```text
//! Foo ─────────┐                ┌──▶ its Deployment: created, scaled, left alone otherwise
//!              ├──▶ reconcile ──┤
//! Deployment ──┘                └──▶ the Foo's status: how many replicas are available
//! ```
//!
//! Read [`reconcile`] first: it is the whole logic. It gets no event. It compares the actual with the desired state and makes the
//! missing changes, so it may run any number of times, and no missed event does harm. [`register`] adds it to a manager with its watches.

use std::collections::BTreeMap;

use bowline::k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use bowline::k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use bowline::k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use bowline::prelude::*;

/// Resync period: every Foo is reconciled at least this often.
pub const RESYNC: Duration = Duration::from_secs(30);

/// Desired state of a Foo.
#[bowline::api]
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(group = "samplecontroller.k8s.io", version = "v1alpha1", kind = "Foo", namespaced)]
#[kube(status = "FooStatus", derive = "PartialEq")]
// Kubernetes guards groups of its own domain, also in examples.
#[kube(annotation("api-approved.kubernetes.io", "unapproved, experimental-only"))]
#[serde(rename_all = "camelCase")]
pub struct FooSpec {
    /// The name of its Deployment.
    #[serde(default)]
    pub deployment_name: String,
    /// Replicas of the Deployment. Without it, the Deployment may be scaled by others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// Observed state of a Foo.
#[bowline::api]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FooStatus {
    /// Available replicas of its Deployment.
    pub available_replicas: i32,
}

/// Declares the kind Foo, and registers the controller: it runs on changes of a Foo, and of a Deployment that a Foo controls.
///
/// # Errors
/// When the manager has a controller of this name already, or has stopped.
pub fn register(manager: &Manager) -> Result<()> {
    manager.crd::<Foo>();
    let deployment = Kind::<Deployment>::typed();
    // A resync delivers every Deployment again; one with the same resource version has not changed.
    let changed = |watch: Watch<Deployment>| watch.filter(predicate::resource_version_changed());
    manager.controller::<Foo>().owns_with(deployment, changed).resync(RESYNC).register(reconcile)?;
    Ok(())
}

/// Drives one Foo towards its desired state: its Deployment, and its status. It is not called for a deleted Foo.
///
/// # Errors
/// A failure is retried later, unless it is [`terminal`].
pub async fn reconcile(ctx: Context, foo: Arc<Foo>) -> Result<Action> {
    let (client, recorder) = (ctx.client(), ctx.recorder());
    if foo.metadata.deletion_timestamp.is_some() {
        // Its Deployment is deleted with it, and must not be created again.
        return Ok(Action::done());
    }
    let name = &foo.spec.deployment_name;
    if name.is_empty() {
        let message = "deploymentName must be set";
        recorder.event(&foo, EventType::Warning, "ErrDeploymentName", message);
        // A retry does not help. A change of the Foo triggers a reconcile anyway.
        return Err(terminal(message));
    }

    let wanted = foo.child::<Deployment>(name);
    let deployment = match client.ensure(wanted, |deployment| shape(deployment, &foo)).await {
        Err(error) if error.is_not_controlled() => {
            let message = format!("Resource {name:?} already exists and is not managed by Foo");
            recorder.event(&foo, EventType::Warning, "ErrResourceExists", &message);
            return Err(Error::message(message));
        }
        ensured => ensured?,
    };

    client.update_status(&foo, |status| status.available_replicas = available(&deployment)).await?;
    recorder.event(&foo, EventType::Normal, "Synced", "Foo synced successfully");
    Ok(Action::done())
}

/// Sets the fields of a Deployment for a Foo: all of a new one, and only the replicas of an existing one.
fn shape(deployment: &mut Deployment, foo: &Foo) {
    let spec = deployment.spec.get_or_insert_with(|| nginx(foo));
    if foo.spec.replicas.is_some() {
        spec.replicas = foo.spec.replicas;
    }
}

fn nginx(foo: &Foo) -> DeploymentSpec {
    let labels = [("app", "nginx".to_owned()), ("controller", foo.name_any())];
    let labels = BTreeMap::from(labels.map(|(label, value)| (label.to_owned(), value)));
    let container = Container {
        name: "nginx".to_owned(),
        image: Some("nginx:latest".to_owned()),
        ..Container::default()
    };
    DeploymentSpec {
        selector: LabelSelector { match_labels: Some(labels.clone()), ..LabelSelector::default() },
        template: PodTemplateSpec {
            metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
            spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
        },
        ..DeploymentSpec::default()
    }
}

fn available(deployment: &Deployment) -> i32 {
    deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

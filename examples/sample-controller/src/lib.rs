//! The operator that everybody knows: a `Foo` names a Deployment, and gets it.
//!
//! ```text
//! Foo ─────────┐                ┌──▶ its Deployment: created, scaled, left alone otherwise
//!              ├──▶ reconcile ──┤
//! Deployment ──┘                └──▶ the Foo's status: how many replicas are available
//! ```
//!
//! Read [`reconcile`] first: it is the whole logic. It is not told what happened. It looks at how things are and does what is
//! missing, so that it does not matter how often it runs, nor what it missed. [`operator`] says when it is to run.

use std::collections::BTreeMap;

use bowline::prelude::*;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

/// So often every Foo is looked at once more, although nothing happened to it.
pub const RESYNC: Duration = Duration::from_secs(30);

/// What a Foo is to be.
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
    /// How many replicas the Deployment is to have. Whoever scales it is left alone where this is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// How a Foo is.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FooStatus {
    /// How many replicas of its Deployment are available.
    pub available_replicas: i32,
}

/// When to reconcile: whenever something happens to a Foo, or to a Deployment that a Foo controls.
///
/// # Errors
/// When the manager has a controller of this name already, or has stopped.
pub fn operator(manager: &Manager) -> Result<()> {
    // A resync shows every Deployment once more. One that is the same as before is no reason to do anything.
    let deployments = Watch::new(source::kind::<Deployment>(), handler::owner::<Foo>())
        .filter(predicate::resource_version_changed());
    manager.controller::<Foo>().watches(deployments).resync(RESYNC).run(reconcile)?;
    Ok(())
}

/// Brings one Foo about: its Deployment, and what its status says of it. A Foo that is gone never gets here.
///
/// # Errors
/// What goes wrong is tried again later, unless it is [`terminal`].
pub async fn reconcile(ctx: Context, foo: Arc<Foo>) -> Result<Action> {
    let (client, recorder) = (ctx.client(), ctx.recorder());
    if foo.metadata.deletion_timestamp.is_some() {
        // It is on its way out, and takes its Deployment along: nothing is to be brought back.
        return Ok(Action::done());
    }
    let name = &foo.spec.deployment_name;
    if name.is_empty() {
        let message = "deploymentName must be set";
        recorder.event(&foo, EventType::Warning, "ErrDeploymentName", message);
        // Trying again does not help. When somebody changes the Foo, it is looked at again anyway.
        return Err(terminal(message));
    }

    let wanted = child::<Deployment>(&*foo, name);
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

/// Makes a Deployment what a Foo asks for: a new one all of it, one that is there only as far as the Foo says something.
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

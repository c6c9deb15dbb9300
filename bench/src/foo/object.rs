//! The kind of the sample controller, and its objects at the start of an operator.
//!
//! `peers/go/foo` has the same kind and creates the same Deployment.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::{CustomResource, Resource as _};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Path of definitions.
pub(super) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Path of the Foos of all namespaces.
pub(super) const FOOS: &str = "/apis/samplecontroller.k8s.io/v1alpha1/foos";

/// Component name of the operators.
pub(super) const COMPONENT: &str = "sample-controller";

/// Event reason and log text of a successful sync.
pub(super) const SYNCED: &str = "Synced";
pub(super) const SYNCED_NOTE: &str = "Foo synced successfully";
pub(super) const SYNCED_LINE: &str = "Successfully synced";

/// Event reason for a Deployment with another controller.
pub(super) const RESOURCE_EXISTS: &str = "ErrResourceExists";

/// Wrong number of available replicas in the status of a Foo before an operator starts: its Deployment is gone.
const STALE_REPLICAS: i32 = 1;

/// Available replicas, since no controller creates Pods.
pub(super) const REPLICAS: i32 = 0;

/// Requests a Deployment.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(group = "samplecontroller.k8s.io", version = "v1alpha1", kind = "Foo", namespaced)]
#[kube(status = "FooStatus", schema = "disabled")]
#[serde(rename_all = "camelCase")]
pub(crate) struct FooSpec {
    pub(super) deployment_name: String,
    pub(super) replicas: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FooStatus {
    pub(super) available_replicas: i32,
}

/// Event note for a Deployment with another controller.
pub(super) fn resource_exists_note(deployment: &str) -> String {
    format!("Resource {deployment:?} already exists and is not managed by Foo")
}

/// The Deployment of a Foo. All operators create the same.
pub(super) fn deployment(owner: &Foo) -> Deployment {
    let name = owner.metadata.name.clone().unwrap_or_default();
    let labels = BTreeMap::from([("app".to_owned(), "nginx".to_owned()), ("controller".to_owned(), name)]);
    let container = Container {
        name: "nginx".to_owned(),
        image: Some("nginx:latest".to_owned()),
        ..Container::default()
    };
    Deployment {
        metadata: ObjectMeta {
            name: Some(owner.spec.deployment_name.clone()),
            namespace: owner.metadata.namespace.clone(),
            owner_references: owner.controller_owner_ref(&()).map(|reference| vec![reference]),
            ..ObjectMeta::default()
        },
        spec: Some(DeploymentSpec {
            replicas: owner.spec.replicas,
            selector: LabelSelector { match_labels: Some(labels.clone()), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
                spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

/// Available replicas of a Deployment.
pub(super) fn available(deployment: &Deployment) -> i32 {
    deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

/// Whether the Foo controls the Deployment.
pub(super) fn is_controlled(deployment: &Deployment, owner: &Foo) -> bool {
    let mut references = deployment.metadata.owner_references.iter().flatten();
    let controller = references.find(|reference| reference.controller == Some(true));
    controller.is_some_and(|reference| Some(&reference.uid) == owner.metadata.uid.as_ref())
}

/// The name of the Foo with this number.
pub(super) fn name(number: usize) -> String {
    format!("foo-{number:06}")
}

/// The Foo with this number, for a create.
pub(super) fn body(number: usize) -> Vec<u8> {
    let object = json!({
        "apiVersion": "samplecontroller.k8s.io/v1alpha1",
        "kind": "Foo",
        "metadata": {"name": name(number)},
        "spec": {"deploymentName": format!("{}-web", name(number)), "replicas": 1},
    });
    object.to_string().into_bytes()
}

/// The status of each Foo, for a patch.
pub(super) fn stale_status() -> Vec<u8> {
    json!({"status": {"availableReplicas": STALE_REPLICAS}}).to_string().into_bytes()
}

/// The definition of the kind.
pub(super) fn definition() -> Vec<u8> {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "foos.samplecontroller.k8s.io",
            // The group is Kubernetes' own.
            "annotations": {"api-approved.kubernetes.io": "unapproved, experimental-only"},
        },
        "spec": {
            "group": "samplecontroller.k8s.io",
            "names": {"kind": "Foo", "plural": "foos"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "required": ["deploymentName"], "properties": {
                        "deploymentName": {"type": "string"},
                        "replicas": {"type": "integer", "minimum": 1, "maximum": 10},
                    }},
                    "status": {"type": "object", "properties": {"availableReplicas": {"type": "integer"}}},
                }}},
                "subresources": {"status": {}},
            }],
        },
    });
    definition.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foo() -> Foo {
        let mut owner: Foo = serde_json::from_slice(&body(7)).unwrap();
        owner.metadata.uid = Some("a".to_owned());
        owner
    }

    #[test]
    fn a_foo_controls_the_deployment_that_it_wants_and_no_other() {
        let deployment = deployment(&foo());
        assert_eq!(deployment.metadata.name.as_deref(), Some("foo-000007-web"));
        assert!(is_controlled(&deployment, &foo()));
        let mut another = foo();
        another.metadata.uid = Some("b".to_owned());
        assert!(!is_controlled(&deployment, &another));
    }

    #[test]
    fn the_status_that_a_foo_has_is_not_the_one_that_it_should_have() {
        assert_eq!(available(&deployment(&foo())), REPLICAS);
        assert_ne!(STALE_REPLICAS, REPLICAS);
    }
}

//! Validation of built-in kinds beyond their metadata, on create and on update, with the messages of Kubernetes and in
//! its order.
//!
//! Expects normalised objects with their defaults: a field of another type counts as absent.

mod access;
mod autoscaler;
mod check;
mod claim;
mod config;
mod container;
mod handler;
mod job;
mod mount;
mod network;
mod node;
mod pod;
mod pod_update;
mod resources;
mod schedule;
mod scheduling;
mod service;
mod small;
mod system;
mod volume;
mod workload;

use serde_json::Value;

use crate::conversion::to_core_event;
use crate::{FieldError, FieldPath};

pub use service::validate_service_addresses;

/// Validates a new object. Returns no errors for kinds without rules here.
#[must_use]
pub fn validate_builtin(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    match (group, kind) {
        ("", "Pod") => pod::create(object),
        ("", "PodTemplate") => pod::template(&object["template"], &FieldPath::new("template")),
        ("", "Service") => service::create(object),
        ("", "ConfigMap") => config::config_map(object),
        ("", "Secret") => config::secret(object),
        ("", "PersistentVolumeClaim") => claim::create(object),
        ("", "PersistentVolume") => claim::volume(object),
        ("", "ReplicationController") => workload::replication_controller(object),
        ("apps", "Deployment") => workload::deployment(object),
        ("apps", "ReplicaSet") => workload::replica_set(object),
        ("apps", "StatefulSet") => workload::stateful_set(object),
        ("apps", "DaemonSet") => workload::daemon_set(object),
        ("batch", "Job") => job::create(object),
        ("batch", "CronJob") => job::cron(object),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler::create(object),
        ("rbac.authorization.k8s.io", "Role") => access::role(object, true),
        ("rbac.authorization.k8s.io", "ClusterRole") => access::role(object, false),
        ("rbac.authorization.k8s.io", "RoleBinding") => access::binding(object, true),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => access::binding(object, false),
        ("networking.k8s.io", "Ingress") => network::ingress(object),
        ("networking.k8s.io", "NetworkPolicy") => network::policy(object),
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice(object),
        ("policy", "PodDisruptionBudget") => small::disruption_budget(object),
        ("scheduling.k8s.io", "PriorityClass") => small::priority_class(object),
        ("storage.k8s.io", "StorageClass") => small::storage_class(object),
        ("coordination.k8s.io", "Lease") => small::lease(object),
        ("node.k8s.io", "RuntimeClass") => small::runtime_class(object),
        ("", "Event") => small::event(object, "reportingComponent"),
        ("", "Node") => node::node(object),
        ("", "Endpoints") => node::endpoints(object),
        ("", "ResourceQuota") => node::quota(object),
        ("", "LimitRange") => node::limit_range(object),
        ("apps", "ControllerRevision") => node::revision(object),
        ("networking.k8s.io", "IngressClass") => node::ingress_class(object),
        ("storage.k8s.io", "CSIDriver") => node::csi_driver(object),
        ("storage.k8s.io", "CSINode") => node::csi_node(object),
        ("storage.k8s.io", "VolumeAttachment") => node::volume_attachment(object),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => system::webhooks(object),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => system::policy(object),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            system::policy_binding(object)
        }
        ("apiregistration.k8s.io", "APIService") => system::api_service(object),
        ("certificates.k8s.io", "CertificateSigningRequest") => system::signing_request(object),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => system::flow_schema(object),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => system::priority_level(object),
        ("events.k8s.io", "Event") => small::new_event(&to_core_event(object.clone())),
        _ => Vec::new(),
    }
}

/// Validates an object that replaces another.
#[must_use]
pub fn validate_builtin_update(group: &str, kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    match (group, kind) {
        ("", "Pod") => pod_update::update(new, old),
        ("", "Service") => service::update(new, old),
        ("", "ConfigMap") => config::config_map_update(new, old),
        ("", "Secret") => config::secret_update(new, old),
        ("", "PersistentVolumeClaim") => claim::update(new, old),
        ("apps", "Deployment") => workload::deployment_update(new, old),
        ("apps", "ReplicaSet") => workload::replica_set_update(new, old),
        ("apps", "StatefulSet") => workload::stateful_set_update(new, old),
        ("apps", "DaemonSet") => workload::daemon_set_update(new, old),
        ("batch", "Job") => job::update(new, old),
        ("batch", "CronJob") => job::cron_update(new, old),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler::update(new, old),
        ("rbac.authorization.k8s.io", "RoleBinding") => access::binding_update(new, old, true),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => access::binding_update(new, old, false),
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice_update(new, old),
        ("scheduling.k8s.io", "PriorityClass") => small::priority_class_update(new, old),
        ("storage.k8s.io", "StorageClass") => small::storage_class_update(new, old),
        ("apps", "ControllerRevision") => node::revision_update(new, old),
        ("networking.k8s.io", "IngressClass") => node::ingress_class_update(new, old),
        ("events.k8s.io", "Event") => small::event(&to_core_event(new.clone()), "reportingController"),
        _ => validate_builtin(group, kind, new),
    }
}

/// Validates an update of the fields that a subresource owns.
#[must_use]
pub fn validate_builtin_part(
    group: &str,
    kind: &str,
    subresource: &str,
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    match (group, kind, subresource) {
        ("", "Pod", "status") => pod_update::status(new, old),
        ("", "Pod", "ephemeralcontainers") => pod_update::ephemeral_containers(new, old),
        _ => Vec::new(),
    }
}

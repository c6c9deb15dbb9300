//! Defaults of built-in kinds: those of the Go scheme. Values that registries and admission plugins set are elsewhere.
//!
//! Expects normalised objects (see [`facts`](crate::facts)): values that Go would omit are absent.

mod autoscaling;
mod container;
mod fill;
mod object;
mod pod;
mod service;
mod volume;
mod workload;

use serde_json::Value;

use fill::Object;

/// Sets the defaults of a kind, in place. Kinds without defaults are unchanged.
pub fn set_defaults(group: &str, version: &str, kind: &str, object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let set: fn(&mut Object) = match (group, kind) {
        ("", "Pod") => pod::pod,
        ("", "PodTemplate") => |object| pod::template(object, "template"),
        ("", "Service") => service::service,
        ("", "ReplicationController") => workload::replication_controller,
        ("", "Endpoints") => service::endpoints,
        ("", "Secret") => object::secret,
        ("", "Namespace") => object::namespace,
        ("", "Node") => object::node,
        ("", "PersistentVolume") => volume::persistent_volume,
        ("", "PersistentVolumeClaim") => volume::claim,
        ("", "LimitRange") => object::limit_range,
        ("", "ResourceQuota") => object::resource_quota,
        ("apps", "Deployment") => workload::deployment,
        ("apps", "DaemonSet") => workload::daemon_set,
        ("apps", "StatefulSet") => workload::stateful_set,
        ("apps", "ReplicaSet") => workload::replica_set,
        ("batch", "Job") => workload::job,
        ("batch", "CronJob") => workload::cron_job,
        ("autoscaling", "HorizontalPodAutoscaler") if version == "v1" => autoscaling::v1,
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::v2,
        ("networking.k8s.io", "NetworkPolicy") => service::network_policy,
        ("networking.k8s.io", "IngressClass") => service::ingress_class,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => object::role_binding,
        ("storage.k8s.io", "StorageClass") => volume::storage_class,
        ("storage.k8s.io", "CSIDriver") => volume::csi_driver,
        ("storage.k8s.io", "VolumeAttachment") => volume::attachment,
        ("scheduling.k8s.io", "PriorityClass") => object::priority_class,
        ("discovery.k8s.io", "EndpointSlice") => service::endpoint_slice,
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => {
            if kind.starts_with('M') {
                object::mutating_webhooks
            } else {
                object::webhooks
            }
        }
        ("admissionregistration.k8s.io", _) => object::admission_policy,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => object::flow_schema,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => object::priority_level,
        ("apiregistration.k8s.io", "APIService") => object::api_service,
        _ => return,
    };
    set(object);
}

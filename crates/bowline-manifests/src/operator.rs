//! The objects around the deployment: namespace, disruption budget, metrics service, network policy.

use serde_json::json;

use crate::document::Document;
use crate::settings::{METRICS_PORT, Settings};

/// The namespace. None if it is the cluster's own: its labels are not the operator's.
pub(crate) fn namespace(settings: &Settings) -> Option<Document> {
    let name = &settings.namespace;
    if name == "default" || name.starts_with("kube-") {
        return None;
    }
    let mut metadata = settings.cluster_metadata(name);
    metadata["labels"]["pod-security.kubernetes.io/enforce"] = json!("restricted");
    Some(Document::new(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})))
}

pub(crate) fn disruption_budget(settings: &Settings) -> Document {
    Document::new(json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": settings.metadata(&settings.name),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": settings.selector()},
            // Pods that are not ready do not stop the drain of a node.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }))
}

pub(crate) fn metrics_service(settings: &Settings) -> Document {
    Document::new(json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": settings.metadata(&settings.metrics_service()),
        "spec": {
            "ports": [{"name": "https", "port": METRICS_PORT, "protocol": "TCP", "targetPort": "metrics"}],
            "selector": settings.selector(),
        },
    }))
}

pub(crate) fn network_policy(settings: &Settings) -> Document {
    let comment = "Only pods in namespaces with the label `metrics: enabled` reach the operator, and only its metrics. The kubelet's \
                   probes always pass.\nLabel the namespace of Prometheus, for example: kubectl label namespace monitoring \
                   metrics=enabled";
    Document::with_comment(
        comment,
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": settings.metadata(&settings.name),
            "spec": {
                "podSelector": {"matchLabels": settings.selector()},
                "policyTypes": ["Ingress"],
                "ingress": [{
                    "from": [{"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}}],
                    "ports": [{"port": METRICS_PORT, "protocol": "TCP"}],
                }],
            },
        }),
    )
}

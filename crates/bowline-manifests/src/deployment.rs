//! The deployment of the operator: under the pod security standard `restricted`, with probes, resources and leader election.

use serde_json::{Value, json};

use crate::document::Document;
use crate::settings::{METRICS_PORT, PROBE_PORT, Settings};

/// Grace period of a pod in seconds. The operator stops within 30 seconds by default; late stages may take some seconds more.
const GRACE_PERIOD: u16 = 45;

const CONTAINER: &str = "operator";

pub(crate) fn render(settings: &Settings) -> Document {
    Document::new(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": settings.metadata(&settings.name),
        "spec": {
            "replicas": settings.replicas,
            "selector": {"matchLabels": settings.selector()},
            "template": {
                "metadata": {
                    "annotations": {"kubectl.kubernetes.io/default-container": CONTAINER},
                    "labels": settings.labels(),
                },
                "spec": pod(settings),
            },
        },
    }))
}

fn pod(settings: &Settings) -> Value {
    json!({
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "podAffinityTerm": {
                "labelSelector": {"matchLabels": settings.selector()},
                "topologyKey": "kubernetes.io/hostname",
            },
            "weight": 100,
        }]}},
        "containers": [container(settings)],
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "serviceAccountName": settings.name,
        "terminationGracePeriodSeconds": GRACE_PERIOD,
    })
}

fn container(settings: &Settings) -> Value {
    json!({
        "name": CONTAINER,
        "image": settings.image,
        "args": settings.args,
        "ports": [
            {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
            {"name": "probes", "containerPort": PROBE_PORT, "protocol": "TCP"},
        ],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "probes"},
            "initialDelaySeconds": 15,
            "periodSeconds": 20,
        },
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "probes"},
            "initialDelaySeconds": 5,
            "periodSeconds": 10,
        },
        "resources": {
            "requests": {"cpu": "10m", "memory": "64Mi"},
            // No limit of the CPU: a slowed-down leader loses its lease.
            "limits": {"memory": "256Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
        },
    })
}

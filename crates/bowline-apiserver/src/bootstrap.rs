//! The objects of a new server.

use bowline_machinery::Status;
use serde_json::{Value, json};

use crate::decode;
use crate::query::Query;
use crate::server::Inner;
use crate::write::Write;

/// Makes the namespaces and objects that every cluster has.
pub(crate) fn bootstrap(inner: &Inner) -> Result<(), Status> {
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        let labels = json!({"kubernetes.io/metadata.name": name});
        create(inner, "", "namespaces", None, json!({"metadata": {"name": name, "labels": labels}}))?;
    }
    for (name, value, description) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        let class = json!({"metadata": {"name": name}, "value": value, "description": description});
        create(inner, "scheduling.k8s.io", "priorityclasses", None, class)?;
    }
    let service = json!({
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": "10.0.0.1",
            "clusterIPs": ["10.0.0.1"],
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
        },
    });
    create(inner, "", "services", Some("default"), service)
}

fn create(
    inner: &Inner,
    group: &str,
    resource: &str,
    namespace: Option<&str>,
    object: Value,
) -> Result<(), Status> {
    let Some(resource) = inner.registry.find(group, "v1", resource) else { return Ok(()) };
    let mut complaints = Vec::new();
    let object = decode::of_kind(&resource, object, &mut complaints)?;
    let query = Query::default();
    let mut write = Write { namespace, ..Write::by_server(inner, &resource, &query) };
    write.create(decode::Decoded { object, complaints })?;
    Ok(())
}

//! Memory per object and representation. In a program of its own: the allocator counts everything.

use bowline_cache::Kind;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Resource;
use serde_json::json;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const COUNT: usize = 100;

/// A Deployment with one container, with all defaults of a server.
fn deployment() -> String {
    let labels = json!({"app": "nginx", "controller": "example-foo-00001"});
    let owner = json!({
        "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "name": "example-foo-00001",
        "uid": "5a3c1f0e-8b1d-4c55-9a5e-3f2d7c9b1a00", "controller": true, "blockOwnerDeletion": true,
    });
    let container = json!({
        "name": "nginx", "image": "nginx:latest", "resources": {}, "imagePullPolicy": "Always",
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    });
    let pod = json!({
        "containers": [container], "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst", "securityContext": {}, "schedulerName": "default-scheduler",
    });
    let deployment = json!({
        "kind": "Deployment", "apiVersion": "apps/v1",
        "metadata": {
            "name": "example-foo-00001", "namespace": "default", "uid": "9d1e7c7e-52a4-4d8f-8f0b-6c1a2b3c4d5e",
            "resourceVersion": "123456", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [owner],
            "managedFields": [{"manager": "m", "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}}],
        },
        "spec": {
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
        },
        "status": {},
    });
    deployment.to_string()
}

/// Bytes per object of a kind.
fn weight<K: Resource>(kind: &Kind<K>, bytes: &[u8]) -> usize {
    let mut scratch = Vec::new();
    let profiler = dhat::Profiler::builder().testing().build();
    let objects: Vec<_> =
        (0..COUNT).map(|_| Box::new(kind.decode(bytes, false, &mut scratch).expect("it is one"))).collect();
    let taken = dhat::HeapStats::get().curr_bytes / objects.len();
    drop((objects, profiler));
    taken
}

#[test]
fn a_packed_object_takes_less_than_a_third_of_a_typed_one() {
    let bytes = deployment();
    let typed = weight(&Kind::<Deployment>::typed(), bytes.as_bytes());
    let packed = weight(&Kind::packed::<Deployment>(), bytes.as_bytes());
    println!("a deployment of {} bytes: {typed} typed, {packed} packed", bytes.len());
    assert!(typed > 5_000, "typed ones are as large as they were: {typed}");
    assert!(3 * packed < typed, "{packed} packed, {typed} typed");
}

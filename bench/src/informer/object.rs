//! The objects that informers sync: of the size, and with the field managers, of a real cluster.

use serde_json::{Value, json};

use super::Resource;

/// Bytes of data in a `ConfigMap`.
const DATA_BYTES: usize = 820;

/// Status that the kubelet reports for a Pod.
const CONDITIONS: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

const PREFIX: &str = "web-6d4b75cb6d-";

pub(super) fn name(number: usize) -> String {
    format!("{PREFIX}{number:06}")
}

/// Created objects.
pub(super) fn body(resource: Resource, number: usize) -> Vec<u8> {
    let object = match resource {
        Resource::Pods => {
            let mut object: Value = serde_json::from_str(POD).expect("the text is JSON");
            object["metadata"]["name"] = name(number).into();
            object
        }
        Resource::ConfigMaps => {
            let mut data = format!("number={number:08}\n");
            while data.len() < DATA_BYTES {
                data += "listen = \"0.0.0.0:8080\"  # all interfaces, as the service expects\n";
            }
            data.truncate(DATA_BYTES);
            json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name(number), "labels": {"app.kubernetes.io/name": "web"}},
                "data": {"web.toml": data},
            })
        }
    };
    object.to_string().into_bytes()
}

/// The status of a running Pod, as a patch.
pub(super) fn status(number: usize) -> Vec<u8> {
    let address = format!("10.{}.{}.{}", 64 + number / 65_536, number / 256 % 256, number % 256);
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "observedGeneration": 1, "lastTransitionTime": "2026-11-01T08:00:05Z",
        })
    };
    let conditions = CONDITIONS.map(condition);
    let status = json!({
        "phase": "Running",
        "startTime": "2026-11-01T08:00:00Z",
        "hostIP": "192.168.7.7",
        "hostIPs": [{"ip": "192.168.7.7"}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": conditions,
        "containerStatuses": [{
            "name": "web",
            "image": "registry.example.com/shop/web:1.27.3",
            "imageID": "registry.example.com/shop/web@sha256:\
                6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
            "containerID": format!("containerd://{number:064x}"),
            "ready": true,
            "started": true,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-11-01T08:00:03Z"}},
        }],
    });
    json!({"status": status}).to_string().into_bytes()
}

const POD: &str = r#"{
  "apiVersion": "v1",
  "kind": "Pod",
  "metadata": {
    "labels": {"app.kubernetes.io/name": "web", "pod-template-hash": "6d4b75cb6d"},
    "generateName": "web-6d4b75cb6d-",
    "ownerReferences": [{
      "apiVersion": "apps/v1",
      "kind": "ReplicaSet",
      "name": "web-6d4b75cb6d",
      "uid": "0d1bdb8a-4d57-4a25-a1e1-4cb7c6a6a7a1",
      "controller": true,
      "blockOwnerDeletion": true
    }]
  },
  "spec": {
    "serviceAccountName": "web",
    "nodeName": "node-007",
    "containers": [{
      "name": "web",
      "image": "registry.example.com/shop/web:1.27.3",
      "args": ["--listen=:8080"],
      "ports": [{"name": "http", "containerPort": 8080}],
      "env": [{"name": "LOG_LEVEL", "value": "info"}],
      "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
      "volumeMounts": [{"name": "config", "mountPath": "/etc/web", "readOnly": true}]
    }],
    "volumes": [{"name": "config", "configMap": {"name": "web"}}]
  }
}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_of_the_number() {
        let read = |bytes: Vec<u8>| -> Value { serde_json::from_slice(&bytes).unwrap() };
        for resource in [Resource::Pods, Resource::ConfigMaps] {
            assert_eq!(read(body(resource, 7))["metadata"]["name"], "web-6d4b75cb6d-000007");
        }
        assert_ne!(read(status(7)), read(status(8)));
        assert_eq!(read(status(70_000))["status"]["podIP"], "10.65.17.112");
    }
}

//! The objects in API servers.

use serde_json::{Value, json};

/// Bytes of data in a `ConfigMap`.
const DATA_BYTES: usize = 1024;

/// Number of namespaces that many objects are spread over.
pub(crate) const NAMESPACES: usize = 20;

/// Makes objects.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Objects {
    padding: Option<usize>,
}

impl Objects {
    /// Objects that are padded so that a response of `length` becomes as long as kube-apiserver's.
    ///
    /// kube-apiserver records the writer of each field. Ours does not yet; an annotation of the same size makes it
    /// store and send as many bytes.
    pub(crate) fn padded(resource: &str, length: usize) -> Self {
        let wanted = if resource == "pods" { POD_BYTES } else { CONFIG_MAP_BYTES };
        Self { padding: wanted.checked_sub(length) }
    }

    /// A `ConfigMap` of 1 KB; `change` distinguishes successive versions of one object.
    pub(crate) fn config_map(self, name: &str, revision: Option<&str>, change: usize) -> Vec<u8> {
        let mut data = format!("change={change:08}\n");
        while data.len() < DATA_BYTES {
            data += "listen = \"0.0.0.0:8080\"  # all interfaces, as the service expects\n";
        }
        data.truncate(DATA_BYTES);
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "web"}},
            "data": {"web.toml": data},
        });
        if let Some(revision) = revision {
            object["metadata"]["resourceVersion"] = revision.into();
        }
        self.finish(object)
    }

    /// A Pod like those of a Deployment: 5.1 KB when read.
    pub(crate) fn pod(self, name: &str) -> Vec<u8> {
        let mut object: Value = serde_json::from_str(POD).expect("the text is JSON");
        object["metadata"]["name"] = name.into();
        self.finish(object)
    }

    /// Adds all of the padding, or the minimum size of an annotation.
    fn finish(self, mut object: Value) -> Vec<u8> {
        if let Some(padding) = self.padding {
            let annotations = &mut object["metadata"]["annotations"];
            let around = if annotations.is_null() { r#""annotations":{"":""},"# } else { r#""":"","# };
            let filling = padding.saturating_sub(around.len() + PADDING.len());
            annotations[PADDING] = "f".repeat(filling).into();
        }
        object.to_string().into_bytes()
    }
}

/// The namespace of the object with this number.
pub(crate) fn namespace(number: usize) -> String {
    format!("bench-{:02}", number % NAMESPACES)
}

const PADDING: &str = "bowline.invalid/instead-of-managed-fields";

/// Length of these objects in responses of kube-apiserver.
const CONFIG_MAP_BYTES: usize = 1_581;
const POD_BYTES: usize = 5_152;

const POD: &str = r#"{
  "apiVersion": "v1",
  "kind": "Pod",
  "metadata": {
    "labels": {
      "app.kubernetes.io/name": "web",
      "app.kubernetes.io/instance": "web-000000",
      "app.kubernetes.io/part-of": "shop",
      "pod-template-hash": "6d4b75cb6d"
    },
    "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
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
      "args": ["--listen=:8080", "--metrics=:9090"],
      "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
      "env": [
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "LOG_LEVEL", "value": "info"},
        {"name": "DATABASE_URL", "valueFrom": {"secretKeyRef": {"name": "web-database", "key": "url"}}}
      ],
      "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
      "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "initialDelaySeconds": 5},
      "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}},
      "volumeMounts": [
        {"name": "config", "mountPath": "/etc/web", "readOnly": true},
        {"name": "cache", "mountPath": "/var/cache/web"}
      ],
      "securityContext": {
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]}
      }
    }],
    "volumes": [{"name": "config", "configMap": {"name": "web"}}, {"name": "cache", "emptyDir": {}}],
    "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "web", "effect": "NoSchedule"}],
    "securityContext": {"runAsNonRoot": true, "runAsUser": 10001, "fsGroup": 10001}
  }
}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_map_has_a_kilobyte_of_data_that_changes() {
        let read = |change| -> Value {
            serde_json::from_slice(&Objects::default().config_map("a", None, change)).unwrap()
        };
        assert_eq!(read(1)["data"]["web.toml"].as_str().unwrap().len(), DATA_BYTES);
        assert_ne!(read(1), read(2));
    }

    #[test]
    fn objects_are_padded_to_the_length_that_kube_apiserver_answers() {
        let config_map = |objects: Objects| objects.config_map("a", None, 0).len();
        let plain = config_map(Objects::default());
        assert_eq!(config_map(Objects::padded("configmaps", CONFIG_MAP_BYTES - 300)), plain + 300);
        assert_eq!(config_map(Objects::padded("configmaps", CONFIG_MAP_BYTES + 1)), plain);
        let pod = |objects: Objects| objects.pod("a").len();
        assert_eq!(pod(Objects::padded("pods", POD_BYTES - 300)), pod(Objects::default()) + 300);
    }
}

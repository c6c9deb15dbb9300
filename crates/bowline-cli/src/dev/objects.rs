//! The objects of the operator's custom kinds, as lines: name and the short form of the status.

use bowline::kube::api::ListParams;
use bowline::kube::core::{ApiResource, DynamicObject};
use bowline::kube::{self, Api, ResourceExt as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// Objects of a kind that are listed.
const SHOWN: u32 = 100;

/// The kinds to list.
pub(super) struct Objects {
    client: kube::Client,
    kinds: Vec<ApiResource>,
}

impl Objects {
    /// No kinds yet.
    pub(super) fn new(client: kube::Client) -> Self {
        Self { client, kinds: Vec::new() }
    }

    /// Lists these kinds from now on, each in its stored version.
    pub(super) fn set_kinds(&mut self, definitions: &[CustomResourceDefinition]) {
        let kinds = definitions.iter().filter_map(|definition| {
            let spec = &definition.spec;
            let version = spec.versions.iter().find(|version| version.served && version.storage);
            let version = version.or_else(|| spec.versions.iter().find(|version| version.served))?;
            Some(ApiResource {
                group: spec.group.clone(),
                version: version.name.clone(),
                api_version: format!("{}/{}", spec.group, version.name),
                kind: spec.names.kind.clone(),
                plural: spec.names.plural.clone(),
            })
        });
        self.kinds = kinds.collect();
    }

    /// A heading, and a line for each object.
    pub(super) async fn lines(&self) -> Vec<String> {
        let mut lines = vec!["OBJECTS".to_owned()];
        for resource in &self.kinds {
            let objects = Api::<DynamicObject>::all_with(self.client.clone(), resource);
            // A kind that is not served at this moment has no lines.
            let Ok(list) = objects.list(&ListParams::default().limit(SHOWN)).await else { continue };
            lines.extend(list.items.iter().map(|object| line(&resource.kind, object)));
        }
        if lines.len() == 1 {
            lines.push("  none yet".to_owned());
        }
        lines
    }
}

fn line(kind: &str, object: &DynamicObject) -> String {
    let name = match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    };
    let state = if object.metadata.deletion_timestamp.is_some() { "is being deleted; " } else { "" };
    format!("  {kind} {name}: {state}{}", summary(&object.data["status"]))
}

/// The short form of a status: its scalar fields, and its conditions as `Ready=True`.
fn summary(status: &Value) -> String {
    let Some(fields) = status.as_object().filter(|fields| !fields.is_empty()) else {
        return "no status".to_owned();
    };
    let mut parts = Vec::new();
    for (name, value) in fields {
        match value {
            Value::Array(items) if name == "conditions" => {
                let text = |item: &Value, field: &str| item[field].as_str().unwrap_or_default().to_owned();
                parts.extend(
                    items.iter().map(|item| format!("{}={}", text(item, "type"), text(item, "status"))),
                );
            }
            Value::Array(items) => parts.push(format!("{name}: {} items", items.len())),
            Value::Object(_) | Value::Null => {}
            Value::String(text) => parts.push(format!("{name}={text}")),
            other => parts.push(format!("{name}={other}")),
        }
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_short_form_of_a_status_has_scalars_and_conditions() {
        assert_eq!(summary(&Value::Null), "no status");
        assert_eq!(summary(&json!({})), "no status");
        let status = json!({
            "phase": "Done", "replicas": 3, "nested": {"a": 1}, "hosts": ["a", "b"],
            "conditions": [{"type": "Ready", "status": "True"}],
        });
        let mut parts: Vec<_> = summary(&status).split(", ").map(str::to_owned).collect();
        // The order is that of the server's JSON.
        parts.sort();
        assert_eq!(parts, ["Ready=True", "hosts: 2 items", "phase=Done", "replicas=3"]);
    }
}

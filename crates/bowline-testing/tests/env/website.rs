//! A custom kind, and operations on config maps.

use std::collections::BTreeMap;

use bowline_testing::TestEnv;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, CustomResource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Desired state of a website.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "demo.example.com", version = "v1", kind = "Website", namespaced)]
pub(crate) struct WebsiteSpec {
    pub(crate) host: String,
}

/// The same kind with another schema.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "demo.example.com", version = "v1", kind = "Website", namespaced, root = "LongWebsite")]
pub(crate) struct LongWebsiteSpec {
    pub(crate) host: String,
    pub(crate) path: Option<String>,
}

pub(crate) fn maps(env: &TestEnv) -> Api<ConfigMap> {
    Api::default_namespaced(env.kube_client().clone())
}

pub(crate) async fn create_map(env: &TestEnv, name: &str, value: &str) {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some(BTreeMap::from([("value".to_owned(), value.to_owned())]));
    maps(env).create(&PostParams::default(), &map).await.expect("created");
}

pub(crate) async fn change_map(env: &TestEnv, name: &str, value: &str) {
    let patch = Patch::Merge(json!({"data": {"value": value}}));
    maps(env).patch(name, &PatchParams::default(), &patch).await.expect("patched");
}

pub(crate) fn value(map: &ConfigMap) -> &str {
    map.data.as_ref().and_then(|data| data.get("value")).map_or("", String::as_str)
}

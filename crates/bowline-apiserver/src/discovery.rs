//! What the server tells of itself: versions, groups, resources.

use std::collections::BTreeMap;

use http::HeaderMap;
use serde_json::{Value, json};

use crate::negotiate;
use crate::registry::{Group, Resources, Version};
use crate::request::Verb;
use crate::resource::{Resource, Subresource};

/// The version of Kubernetes that the server behaves like.
pub(crate) fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": concat!("v1.36.4+bowline-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    })
}

/// As Go names it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// `/api`: the aggregated document if the client asks for it.
pub(crate) fn core(
    resources: &Resources,
    headers: &HeaderMap,
    address: &str,
) -> (Value, Option<&'static str>) {
    if let Some(version) = negotiate::discovery_version(headers) {
        let core = resources.groups().filter(|(name, _)| name.is_empty());
        return (aggregated(core, version), Some(version));
    }
    let versions = versions(resources, "");
    let document = json!({
        "kind": "APIVersions",
        "versions": versions,
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    });
    (document, None)
}

/// `/apis`: the aggregated document if the client asks for it.
pub(crate) fn groups(resources: &Resources, headers: &HeaderMap) -> (Value, Option<&'static str>) {
    let named = || resources.groups().filter(|(name, _)| !name.is_empty());
    if let Some(version) = negotiate::discovery_version(headers) {
        return (aggregated(named(), version), Some(version));
    }
    let groups: Vec<_> = named().map(|(name, group)| api_group(name, group, false)).collect();
    (json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}), None)
}

/// `/apis/GROUP`
pub(crate) fn group(resources: &Resources, name: &str) -> Option<Value> {
    resources.group(name).map(|group| api_group(name, group, true))
}

/// `/api/v1`, `/apis/GROUP/VERSION`
pub(crate) fn resource_list(resources: &Resources, group: &str, version: &str) -> Option<Value> {
    let found = resources.version(group, version)?;
    let entries: Vec<_> = found.resources.values().flat_map(|resource| entries(resource)).collect();
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": entries});
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Some(list)
}

fn versions(resources: &Resources, group: &str) -> Vec<String> {
    let found = resources.group(group).into_iter().flat_map(|group| &group.versions);
    found.map(|version| version.version.clone()).collect()
}

fn api_group(name: &str, group: &Group, whole: bool) -> Value {
    let version = |version: &Version| json!({"groupVersion": format!("{name}/{}", version.version), "version": version.version});
    let versions: Vec<_> = group.versions.iter().map(version).collect();
    let mut api_group = json!({"name": name, "preferredVersion": versions.first(), "versions": versions});
    if whole {
        api_group["kind"] = "APIGroup".into();
        api_group["apiVersion"] = "v1".into();
    }
    api_group
}

fn verbs(verbs: &[Verb]) -> Value {
    let mut names: Vec<_> = verbs.iter().map(|verb| verb.as_str()).collect();
    names.sort_unstable();
    names.into()
}

/// A resource and its subresources, as the unaggregated documents list them.
fn entries(resource: &Resource) -> Vec<Value> {
    let names = &resource.names;
    let mut entry = json!({
        "name": names.plural,
        "singularName": names.singular,
        "namespaced": resource.namespaced,
        "kind": resource.gvk.kind,
        "verbs": verbs(&resource.verbs),
    });
    if !names.short_names.is_empty() {
        entry["shortNames"] = names.short_names.clone().into();
    }
    if !names.categories.is_empty() {
        entry["categories"] = names.categories.clone().into();
    }
    if resource.verbs.contains(&Verb::List) {
        entry["storageVersionHash"] = storage_version_hash(resource).into();
    }
    let below = resource.subresources.iter().map(|subresource| {
        let mut entry = json!({
            "name": format!("{}/{}", names.plural, subresource.name),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": subresource.gvk.kind,
            "verbs": verbs(&subresource.verbs),
        });
        if subresource.gvk.group_version() != resource.gvk.group_version() {
            entry["group"] = subresource.gvk.group.clone().into();
            entry["version"] = subresource.gvk.version.clone().into();
        }
        entry
    });
    std::iter::once(entry).chain(below).collect()
}

/// Some characters that change with what a resource is stored as.
fn storage_version_hash(resource: &Resource) -> String {
    use base64::Engine as _;
    // FNV-1a, which is stable: the value is compared between servers.
    let text = format!("{}/{}/{}", resource.gvk.group, resource.gvk.version, resource.gvk.kind);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    base64::engine::general_purpose::STANDARD.encode(hash.to_be_bytes())
}

fn aggregated<'a>(groups: impl Iterator<Item = (&'a str, &'a Group)>, version: &str) -> Value {
    let items: Vec<_> = groups.map(|(name, group)| aggregated_group(name, group)).collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    })
}

fn aggregated_group(name: &str, group: &Group) -> Value {
    let versions: Vec<_> = group
        .versions
        .iter()
        .map(|version| {
            let resources: Vec<_> =
                version.resources.values().map(|resource| aggregated_resource(resource)).collect();
            json!({"version": version.version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(resource: &Resource) -> Value {
    let names = &resource.names;
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let gvk = &resource.gvk;
    let mut entry = BTreeMap::from([
        ("resource", Value::from(names.plural.clone())),
        ("responseKind", kind(&gvk.group, &gvk.version, &gvk.kind)),
        ("scope", Value::from(if resource.namespaced { "Namespaced" } else { "Cluster" })),
        ("singularResource", Value::from(names.singular.clone())),
        ("verbs", verbs(&resource.verbs)),
    ]);
    if !names.short_names.is_empty() {
        entry.insert("shortNames", names.short_names.clone().into());
    }
    if !names.categories.is_empty() {
        entry.insert("categories", names.categories.clone().into());
    }
    if !resource.subresources.is_empty() {
        let below = |subresource: &Subresource| {
            let gvk = &subresource.gvk;
            json!({
                "subresource": subresource.name,
                "responseKind": kind(&gvk.group, &gvk.version, &gvk.kind),
                "verbs": verbs(&subresource.verbs),
            })
        };
        entry.insert("subresources", resource.subresources.iter().map(below).collect());
    }
    json!(entry)
}

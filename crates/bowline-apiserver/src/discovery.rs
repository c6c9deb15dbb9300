//! Discovery: versions, groups, resources.

use bowline_machinery::GroupVersionKind;
use serde_json::{Value, json};

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

/// `/api`
pub(crate) fn core(resources: &Resources, address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": versions(resources, ""),
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`
pub(crate) fn groups(resources: &Resources) -> Value {
    let groups: Vec<_> =
        by_priority(resources).into_iter().map(|(name, group)| api_group(name, group, false)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// The groups that every server has in the order of their priorities. Those of custom resources come after them, by
/// name.
const PRIORITIES: [&str; 20] = [
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// All groups but the core one.
fn by_priority(resources: &Resources) -> Vec<(&str, &Group)> {
    let mut groups: Vec<_> = resources.groups().filter(|(name, _)| !name.is_empty()).collect();
    let last = PRIORITIES.len();
    groups.sort_by_key(|(name, _)| PRIORITIES.iter().position(|known| known == name).unwrap_or(last));
    groups
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

fn verbs(verbs: &[Verb], is_custom: bool) -> Value {
    /// The order in which custom resources have them; others have them in that of the alphabet.
    const CUSTOM: [Verb; 3] = [Verb::Create, Verb::Update, Verb::Watch];
    let mut verbs = verbs.to_vec();
    verbs.sort_by_key(|verb| verb.as_str());
    if is_custom {
        verbs.sort_by_key(|verb| CUSTOM.contains(verb));
    }
    verbs.into_iter().map(Verb::as_str).collect()
}

/// A resource and its subresources, as the unaggregated documents list them.
fn entries(resource: &Resource) -> Vec<Value> {
    let names = &resource.names;
    let is_custom = resource.behaviour.items_have_kind();
    let mut entry = json!({
        "name": names.plural,
        "singularName": names.singular,
        "namespaced": resource.namespaced,
        "kind": resource.gvk.kind,
        "verbs": verbs(&resource.verbs, is_custom),
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
            "verbs": verbs(&subresource.verbs, false),
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

/// `/api` or `/apis`, with everything below.
pub(crate) fn aggregated(resources: &Resources, is_core: bool, version: &str) -> Value {
    let groups = match resources.group("") {
        Some(core) if is_core => vec![("", core)],
        None if is_core => Vec::new(),
        _ => by_priority(resources),
    };
    let items: Vec<_> = groups.into_iter().map(|(name, group)| aggregated_group(name, group)).collect();
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
    let is_custom = resource.behaviour.items_have_kind();
    let kind = |gvk: &GroupVersionKind| {
        // A built-in resource does not repeat where it is.
        let is_told = is_custom || gvk.group_version() != resource.gvk.group_version();
        let (group, version) = if is_told { (gvk.group.as_str(), gvk.version.as_str()) } else { ("", "") };
        json!({"group": group, "version": version, "kind": gvk.kind})
    };
    let mut entry = json!({
        "resource": names.plural,
        "responseKind": kind(&resource.gvk),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": names.singular,
        "verbs": verbs(&resource.verbs, is_custom),
    });
    if !names.short_names.is_empty() {
        entry["shortNames"] = names.short_names.clone().into();
    }
    if !names.categories.is_empty() {
        entry["categories"] = names.categories.clone().into();
    }
    if !resource.subresources.is_empty() {
        let below = |subresource: &Subresource| {
            json!({
                "subresource": subresource.name,
                "responseKind": kind(&subresource.gvk),
                "verbs": verbs(&subresource.verbs, false),
            })
        };
        entry["subresources"] = resource.subresources.iter().map(below).collect();
    }
    entry
}

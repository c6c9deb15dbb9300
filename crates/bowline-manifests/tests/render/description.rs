//! The description of an operator with two custom kinds, in the form that `describe` prints.

use bowline_manifests::{Manifest, Manifests};
use bowline_runtime::OperatorDescription;
use serde_json::{Value, json};

/// Games own deployments and config maps, and have a finalizer; arenas are cluster-scoped. Further permissions are declared.
pub(crate) fn games() -> OperatorDescription {
    read(json!({
        "format": 1,
        "crds": [crd("Game", "games", "Namespaced"), crd("Arena", "arenas", "Cluster")],
        "controllers": [
            {
                "name": "game",
                "kind": kind("example.com", "Game", "games", true),
                "leaderOnly": true,
                "watches": [
                    {"source": "Game", "kind": kind("example.com", "Game", "games", true)},
                    {"source": "Deployment", "kind": kind("apps", "Deployment", "deployments", true)},
                    {"source": "ConfigMap", "kind": kind("", "ConfigMap", "configmaps", true)},
                ],
            },
            {
                "name": "arena",
                "kind": kind("example.com", "Arena", "arenas", false),
                "leaderOnly": true,
                "watches": [{"source": "Arena", "kind": kind("example.com", "Arena", "arenas", false)}],
            },
        ],
        "permissions": permissions(),
        "lease": "games.example.com",
    }))
}

/// An operator that reconciles config maps, without custom kinds.
pub(crate) fn maps() -> OperatorDescription {
    let maps = kind("", "ConfigMap", "configmaps", true);
    read(json!({
        "format": 1,
        "crds": [],
        "controllers": [{"name": "configmap", "kind": maps, "leaderOnly": true, "watches": [{"source": "ConfigMap", "kind": maps}]}],
        "permissions": [
            permission("", "configmaps", "get list watch", "controller configmap: watches ConfigMap"),
            permission("events.k8s.io", "events", "create patch", "events"),
        ],
    }))
}

/// The files of the games.
pub(crate) fn render(options: impl FnOnce(Manifests) -> Manifests) -> Vec<Manifest> {
    let options = options(Manifests::new("games").image("registry.example.com/games:1.2.0"));
    options.render(&games()).expect("all options are valid")
}

/// The text of a file.
pub(crate) fn file<'a>(files: &'a [Manifest], path: &str) -> &'a str {
    let file = files.iter().find(|file| file.path == path);
    &file.unwrap_or_else(|| panic!("there is no {path}")).text
}

/// The documents of a file.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).expect("it is YAML")
}

fn read(description: Value) -> OperatorDescription {
    serde_json::from_value(description).expect("it is a description")
}

fn permissions() -> Vec<Value> {
    let cluster = |mut permission: Value| {
        permission["namespaced"] = json!(false);
        permission
    };
    let with = |mut permission: Value, key: &str, value: Value| {
        permission[key] = value;
        permission
    };
    let game = "controller game";
    vec![
        permission("example.com", "games", "get list watch", &format!("{game}: watches Game")),
        permission("example.com", "games/status", "patch update", &format!("{game}: reconciles Game")),
        permission("example.com", "games/finalizers", "update", &format!("{game}: reconciles Game")),
        permission(
            "example.com",
            "games",
            "patch",
            &format!("{game}: writes the finalizer example.com/scores"),
        ),
        permission("apps", "deployments", "get list watch", &format!("{game}: watches Deployment")),
        permission("apps", "deployments", "create patch update", &format!("{game}: owns Deployment")),
        permission("", "configmaps", "get list watch", &format!("{game}: watches ConfigMap")),
        permission("", "configmaps", "create patch update", &format!("{game}: owns ConfigMap")),
        permission("", "configmaps", "delete", &format!("{game}: writes ConfigMap")),
        with(
            permission("", "secrets", "get", &format!("{game}: declares a permission")),
            "names",
            json!(["registry"]),
        ),
        with(permission("", "secrets", "get", "manager: declares a permission"), "namespace", json!("vault")),
        cluster(permission("example.com", "arenas", "get list watch", "controller arena: watches Arena")),
        cluster(permission(
            "example.com",
            "arenas/status",
            "patch update",
            "controller arena: reconciles Arena",
        )),
        cluster(permission(
            "example.com",
            "arenas/finalizers",
            "update",
            "controller arena: reconciles Arena",
        )),
        cluster(permission("", "nodes", "get list", "controller arena: reads Node")),
        permission("events.k8s.io", "events", "create patch", "events"),
        // Those of the election have a role of their own.
        with(
            permission("coordination.k8s.io", "leases", "create", "leader election"),
            "namespace",
            json!("default"),
        ),
        with(
            with(
                permission("coordination.k8s.io", "leases", "get update", "leader election"),
                "namespace",
                json!("default"),
            ),
            "names",
            json!(["games.example.com"]),
        ),
    ]
}

fn permission(group: &str, resource: &str, verbs: &str, reason: &str) -> Value {
    let verbs: Vec<_> = verbs.split(' ').collect();
    json!({"group": group, "resource": resource, "verbs": verbs, "namespaced": true, "reason": reason})
}

fn kind(group: &str, kind: &str, plural: &str, namespaced: bool) -> Value {
    let version = if group.is_empty() { "v1" } else { "v1alpha1" };
    json!({"group": group, "version": version, "kind": kind, "plural": plural, "namespaced": namespaced})
}

fn crd(kind: &str, plural: &str, scope: &str) -> Value {
    let mut subresources = json!({"status": {}});
    if scope == "Namespaced" {
        subresources["scale"] =
            json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    }
    let replicas =
        json!({"type": "object", "properties": {"replicas": {"type": "integer", "format": "int32"}}});
    let singular = kind.to_lowercase();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com",
            "names": {"kind": kind, "plural": plural, "singular": singular, "categories": [], "shortNames": []},
            "scope": scope,
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "One line.\n\nA paragraph: with a colon, a #hash and enough words that it is longer than a line of YAML.",
                    "properties": {"spec": replicas, "status": replicas},
                }},
                "subresources": subresources,
            }],
        },
    })
}

//! Roles of users for a custom kind: admin, editor, viewer. Kubernetes adds their rules to its roles `admin`, `edit` and `view`.

use bowline_runtime::Permission;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use crate::document::Document;
use crate::rules::Rules;
use crate::settings::Settings;

/// What a role of users allows.
struct KindRole {
    name: &'static str,
    /// The role of Kubernetes that includes it.
    aggregate: &'static str,
    verbs: &'static [&'static str],
    /// Verbs on the subresource `scale`. On `status` it is always `get`: only the operator writes it.
    scale: &'static [&'static str],
}

const ROLES: [KindRole; 3] = [
    KindRole { name: "admin", aggregate: "admin", verbs: &["*"], scale: &["get", "patch", "update"] },
    KindRole {
        name: "editor",
        aggregate: "edit",
        verbs: &["create", "delete", "get", "list", "patch", "update", "watch"],
        scale: &["get", "patch", "update"],
    },
    KindRole { name: "viewer", aggregate: "view", verbs: &["get", "list", "watch"], scale: &["get"] },
];

pub(crate) fn render(settings: &Settings, crd: &CustomResourceDefinition) -> Vec<Document> {
    let (group, plural) = (&crd.spec.group, &crd.spec.names.plural);
    let subresources = || crd.spec.versions.iter().filter_map(|version| version.subresources.as_ref());
    let has_scale = subresources().any(|subresources| subresources.scale.is_some());
    let has_status = subresources().any(|subresources| subresources.status.is_some());
    let render = |role: &KindRole| {
        let all =
            |verbs: &[&str]| Permission::to_resource(group, plural, true, []).verbs(verbs.iter().copied());
        let mut permissions = vec![all(role.verbs)];
        if has_scale {
            permissions.push(all(role.scale).subresource("scale"));
        }
        if has_status {
            permissions.push(all(&["get"]).subresource("status"));
        }
        let mut metadata = settings.cluster_metadata(&format!("{plural}.{group}-{}", role.name));
        metadata["labels"][format!("rbac.authorization.k8s.io/aggregate-to-{}", role.aggregate)] =
            json!("true");
        let object = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": metadata,
        });
        Document::role(object, &permissions.iter().collect::<Rules>().grouped())
    };
    ROLES.iter().map(render).collect()
}

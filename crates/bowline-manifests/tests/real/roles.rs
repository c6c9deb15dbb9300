//! What the service account may do, as a server says.

use http::Request;
use http::header::CONTENT_TYPE;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::arm::Arm;
use crate::installation::{Installation, Mode, path};

/// A request: verb, group, resource with subresource, namespace or none, name or none.
type Access<'a> = (&'a str, &'a str, &'a str, Option<&'a str>, Option<&'a str>);

/// Whether the service account may send a request.
async fn is_allowed(arm: &Arm, installation: &Installation, access: Access<'_>) -> bool {
    let (verb, group, resource, namespace, name) = access;
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let Installation { name: account, namespace: home, .. } = installation;
    let review = json!({"spec": {
        "user": format!("system:serviceaccount:{home}:{account}"),
        "groups": ["system:authenticated", "system:serviceaccounts", format!("system:serviceaccounts:{home}")],
        "resourceAttributes": {
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": subresource,
            "namespace": namespace.unwrap_or_default(),
            "name": name.unwrap_or_default(),
        },
    }});
    let review: SubjectAccessReview = serde_json::from_value(review).expect("it is a review");
    let reviews = Api::<SubjectAccessReview>::all(arm.admin.clone());
    let answer = reviews.create(&PostParams::default(), &review).await.expect("it is answered");
    answer.status.is_some_and(|status| status.allowed)
}

/// A rule of a role that is bound to the service account.
#[derive(Clone, Debug)]
pub(crate) struct BoundRule {
    /// The role, with all its rules.
    pub(crate) role: Value,
    pub(crate) index: usize,
}

impl BoundRule {
    /// All rules that the service account has. Each installation of the operator has them in the same order.
    pub(crate) fn all(installation: &Installation) -> Vec<Self> {
        let objects = installation.objects();
        let is_bound = |role: &&Value| {
            let is_binding = |binding: &Value| {
                binding["kind"].as_str().is_some_and(|kind| kind.ends_with("Binding"))
                    && binding["roleRef"]["kind"] == role["kind"]
                    && binding["roleRef"]["name"] == role["metadata"]["name"]
                    && binding["metadata"]["namespace"] == role["metadata"]["namespace"]
            };
            objects.iter().any(is_binding)
        };
        let rules = |role: &Value| {
            let count = role["rules"].as_array().map_or(0, Vec::len);
            (0..count).map(|index| Self { role: role.clone(), index }).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = objects.iter().filter(is_bound).flat_map(rules).collect();
        let Installation { namespace, vault, namespaces, .. } = installation;
        let places: Vec<_> = [namespace, vault].into_iter().chain(namespaces).map(String::as_str).collect();
        all.sort_by_key(|rule| rule.namespace().map(|it| places.iter().position(|place| *place == it)));
        all
    }

    /// The role's namespace.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.role["metadata"]["namespace"].as_str()
    }

    /// The resources, with subresources.
    pub(crate) fn resources(&self) -> Vec<&str> {
        self.texts("resources")
    }

    fn texts(&self, key: &str) -> Vec<&str> {
        self.role["rules"][self.index][key]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }

    /// All requests that it allows.
    fn accesses(&self) -> Vec<Access<'_>> {
        let mut names: Vec<_> = self.texts("resourceNames").into_iter().map(Some).collect();
        if names.is_empty() {
            names.push(None);
        }
        let mut accesses = Vec::new();
        for group in self.texts("apiGroups") {
            for resource in self.resources() {
                for verb in self.texts("verbs") {
                    accesses
                        .extend(names.iter().map(|name| (verb, group, resource, self.namespace(), *name)));
                }
            }
        }
        accesses
    }

    /// Removes it from its role on the server, and waits until the server acts so.
    pub(crate) async fn remove(&self, arm: &Arm, installation: &Installation) {
        let mut rules = self.role["rules"].as_array().expect("it has rules").clone();
        rules.remove(self.index);
        let request = Request::patch(path(arm, &self.role).await);
        let request = request.header(CONTENT_TYPE, "application/merge-patch+json");
        let request = request.body(json!({"rules": rules}).to_string().into_bytes());
        arm.admin.request::<Value>(request.expect("it is a request")).await.expect("it is patched");
        for access in self.accesses() {
            let is_denied = async || (!is_allowed(arm, installation, access).await).then_some(());
            arm.until(&format!("denial of {access:?}"), is_denied).await;
        }
    }
}

/// Waits until the server knows all roles and bindings: it reads them from a cache. The embedded server has no such reviews.
pub(crate) async fn wait_allowed(arm: &Arm, installation: &Installation) {
    if !arm.is_real() {
        return;
    }
    for rule in BoundRule::all(installation) {
        for access in rule.accesses() {
            let look = async || is_allowed(arm, installation, access).await.then_some(());
            arm.until(&format!("permission for {access:?}"), look).await;
        }
    }
}

#[test]
fn nothing_else_is_allowed() {
    Arm::run_if_real(|arm| async move {
        for mode in [Mode::All, Mode::Limited] {
            let installation = Installation::new(&arm, mode).await;
            installation.apply(&arm).await;
            wait_allowed(&arm, &installation).await;
            let Installation { name, namespace, vault, namespaces, .. } = &installation;
            let elsewhere = arm.new_namespace().await;
            let (home, vault, elsewhere) = (Some(&**namespace), Some(&**vault), Some(&*elsewhere));
            let group = "manifests.example.com";
            let work = namespaces.first().map(String::as_str).or(elsewhere);
            let mut denied = vec![
                ("get", "", "secrets", work, Some("registry")),
                ("get", "", "secrets", home, Some("registry")),
                ("get", "", "secrets", vault, Some("other")),
                ("list", "", "secrets", vault, None),
                ("list", "", "secrets", None, None),
                ("create", group, "games", work, None),
                ("delete", group, "games", work, Some("chess")),
                ("deletecollection", "", "configmaps", work, None),
                ("watch", "", "nodes", None, None),
                ("list", "", "serviceaccounts", work, None),
                ("create", "", "serviceaccounts/token", work, Some("default")),
                ("delete", group, "arenas", None, Some("arena")),
                ("get", "coordination.k8s.io", "leases", home, Some("other")),
                ("get", "coordination.k8s.io", "leases", work, Some(&**name)),
                ("delete", "coordination.k8s.io", "leases", home, Some(&**name)),
                ("create", "", "pods", home, None),
                ("update", "rbac.authorization.k8s.io", "clusterroles", None, Some(&**name)),
                ("escalate", "rbac.authorization.k8s.io", "clusterroles", None, Some(&**name)),
                ("create", "apiextensions.k8s.io", "customresourcedefinitions", None, None),
            ];
            if mode == Mode::Limited {
                denied.extend([
                    ("list", group, "games", None, None),
                    ("list", group, "games", elsewhere, None),
                    ("create", "", "configmaps", elsewhere, None),
                    ("create", "", "configmaps", home, None),
                    ("create", "events.k8s.io", "events", elsewhere, None),
                    ("patch", "events.k8s.io", "events", None, None),
                ]);
            }
            for access in denied {
                assert!(!is_allowed(&arm, &installation, access).await, "{mode:?}: {access:?}");
            }
        }
    });
}

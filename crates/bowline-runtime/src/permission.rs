//! Permissions: the requests that an operator may send, as RBAC knows them. Owns which rules of Kubernetes a request is compared
//! with; controllers and the manager say what they need.

use std::collections::BTreeSet;
use std::fmt;

use bowline_cache::Kind;
use kube::Resource;
use kube::core::ApiResource;
use serde::{Deserialize, Serialize};

use crate::{Object, Verb};

/// Verbs that an operator may use on a resource: one rule of a role, before roles are made.
///
/// Controllers imply permissions: see [`ControllerBuilder`](crate::ControllerBuilder#permissions). Others are declared with
/// [`ControllerBuilder::permits`](crate::ControllerBuilder::permits) or [`Manager::permits`](crate::Manager::permits). Manifests
/// are made from them, and a test environment fails a test when the operator sends a request without a permission.
///
/// ```
/// use bowline_runtime::{Permission, Verb};
/// use k8s_openapi::api::core::v1::{Pod, Secret};
///
/// let evict = Permission::to::<Pod>([Verb::Create]).subresource("eviction");
/// assert_eq!(evict.to_string(), "create pods/eviction");
/// let secret = Permission::to::<Secret>([Verb::Get]).named(["registry"]);
/// assert_eq!(secret.to_string(), "get secrets (registry)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Permission {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural name of the resource, with the subresource: `deployments`, `deployments/status`.
    pub resource: String,
    /// Verbs in RBAC's words: `get`, `deletecollection`.
    pub verbs: BTreeSet<String>,
    /// Names of the objects; empty for all.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub names: BTreeSet<String>,
    /// Whether the resource is in namespaces.
    pub namespaced: bool,
    /// The only namespace, if there is one. Otherwise the operator's namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The declaration that it comes from: `controller game: owns Deployment`.
    #[serde(default)]
    pub reason: String,
    /// Whether the author declared it, and can take it back. Otherwise it follows from another declaration.
    #[serde(default)]
    pub is_declared: bool,
}

impl Permission {
    /// Verbs on the objects of a type.
    #[must_use]
    pub fn to<K: Object>(verbs: impl IntoIterator<Item = Verb>) -> Self {
        Self::to_kind(&Kind::<K>::typed(), verbs)
    }

    /// Verbs on the objects of a kind in any form.
    #[must_use]
    pub fn to_kind<K>(kind: &Kind<K>, verbs: impl IntoIterator<Item = Verb>) -> Self {
        let ApiResource { group, plural, .. } = kind.resource();
        Self::to_resource(group, plural, kind.is_namespaced(), verbs)
    }

    /// Verbs on a resource by its group, empty for the core group, and its plural name.
    #[must_use]
    pub fn to_resource(
        group: &str,
        plural: &str,
        namespaced: bool,
        verbs: impl IntoIterator<Item = Verb>,
    ) -> Self {
        Self {
            group: group.to_owned(),
            resource: plural.to_owned(),
            verbs: verbs.into_iter().map(|verb| rule_verb(verb).to_owned()).collect(),
            names: BTreeSet::new(),
            namespaced,
            namespace: None,
            reason: String::new(),
            is_declared: false,
        }
    }

    /// A subresource of it instead: `scale`, `eviction`.
    #[must_use]
    pub fn subresource(mut self, name: &str) -> Self {
        self.resource = format!("{}/{name}", self.resource.split('/').next().unwrap_or_default());
        self
    }

    /// Only objects with these names. RBAC never allows a `create`, and a `list` or `watch` only with a field selector for the
    /// name. Default: all objects.
    #[must_use]
    pub fn named<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.names.extend(names.into_iter().map(Into::into));
        self
    }

    /// Only objects in this namespace. Default: the namespaces that the operator works in.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Further verbs, which only RBAC has: `approve`, `impersonate`, `bind`.
    #[must_use]
    pub fn verbs<V: Into<String>>(mut self, verbs: impl IntoIterator<Item = V>) -> Self {
        self.verbs.extend(verbs.into_iter().map(Into::into));
        self
    }

    /// States which declaration it follows from.
    pub(crate) fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }

    /// Marks it as the author's own.
    pub(crate) fn declared(mut self) -> Self {
        self.is_declared = true;
        self
    }

    /// Whether it allows a request, whatever the request's namespace is: RBAC decides that by where a role is bound.
    /// `resource` contains the subresource: `pods/eviction`. `*` stands for every verb, group, or resource.
    #[must_use]
    pub fn allows(&self, verb: &str, group: &str, resource: &str, name: Option<&str>) -> bool {
        let is_same = |own: &str, other: &str| own == "*" || own == other;
        self.verbs.iter().any(|own| is_same(own, verb))
            && is_same(&self.group, group)
            && is_same(&self.resource, resource)
            && (self.names.is_empty() || name.is_some_and(|name| self.names.contains(name)))
    }
}

/// Verbs and resource: `get, list deployments.apps`, `update leases.coordination.k8s.io (games.example.com)`.
impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verbs: Vec<_> = self.verbs.iter().map(String::as_str).collect();
        let (plural, subresource) = match self.resource.split_once('/') {
            Some((plural, subresource)) => (plural, Some(subresource)),
            None => (self.resource.as_str(), None),
        };
        write!(f, "{} {plural}", verbs.join(", "))?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(subresource) = subresource {
            write!(f, "/{subresource}")?;
        }
        if !self.names.is_empty() {
            let names: Vec<_> = self.names.iter().map(String::as_str).collect();
            write!(f, " ({})", names.join(", "))?;
        }
        if let Some(namespace) = &self.namespace {
            write!(f, " in {namespace}")?;
        }
        Ok(())
    }
}

/// The verb of a rule that allows a call of the client.
fn rule_verb(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "get",
        Verb::List => "list",
        Verb::Watch => "watch",
        Verb::Create => "create",
        Verb::Update => "update",
        Verb::Patch | Verb::Apply => "patch",
        Verb::Delete => "delete",
        Verb::DeleteAllOf => "deletecollection",
    }
}

/// The permissions of a controller for the kind that it reconciles: status and finalizers, beside those of its informer.
pub(crate) fn to_reconcile<K: Resource>(kind: &Kind<K>) -> [Permission; 2] {
    [
        Permission::to_kind(kind, [Verb::Update, Verb::Patch]).subresource("status"),
        Permission::to_kind(kind, [Verb::Update]).subresource("finalizers"),
    ]
}

/// The permissions of a controller for children that it owns, beside those of its informer.
pub(crate) fn to_own<K>(kind: &Kind<K>) -> Permission {
    Permission::to_kind(kind, [Verb::Create, Verb::Patch, Verb::Update])
}

/// The permissions of a leader election on a lease.
#[must_use]
pub fn election_permissions(lease: &str) -> [Permission; 2] {
    let leases = |verbs: &[Verb]| {
        Permission::to_resource("coordination.k8s.io", "leases", true, verbs.iter().copied())
    };
    [
        // A rule for a create cannot name the object.
        leases(&[Verb::Create]).because("leader election"),
        leases(&[Verb::Get, Verb::Update]).named([lease]).because("leader election"),
    ]
}

/// The permissions of a metrics server that authenticates its readers.
#[must_use]
pub fn review_permissions() -> [Permission; 2] {
    [("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")].map(
        |(group, plural)| {
            Permission::to_resource(group, plural, false, [Verb::Create]).because("access to metrics")
        },
    )
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{Namespace, Secret};

    use super::*;

    #[test]
    fn verbs_of_the_client_become_verbs_of_rbac() {
        let all = [Verb::Apply, Verb::Patch, Verb::DeleteAllOf, Verb::Watch];
        let permission = Permission::to::<Deployment>(all);
        assert_eq!(permission.to_string(), "deletecollection, patch, watch deployments.apps");
        assert!(permission.namespaced && !Permission::to::<Namespace>([Verb::Get]).namespaced);
    }

    #[test]
    fn a_permission_allows_its_verbs_on_its_resource_only() {
        let scale = Permission::to::<Deployment>([Verb::Patch]).subresource("scale");
        assert!(scale.allows("patch", "apps", "deployments/scale", Some("web")));
        for (verb, group, resource) in [
            ("update", "apps", "deployments/scale"),
            ("patch", "", "deployments/scale"),
            ("patch", "apps", "deployments"),
            ("patch", "apps", "deployments/status"),
        ] {
            assert!(!scale.allows(verb, group, resource, Some("web")), "{verb} {group} {resource}");
        }
        let everything = Permission::to_resource("*", "*", true, []).verbs(["*"]);
        assert!(everything.allows("patch", "apps", "deployments/scale", None));
    }

    #[test]
    fn a_permission_for_names_allows_no_request_without_one() {
        let one = Permission::to::<Secret>([Verb::Get, Verb::List]).named(["token"]);
        assert!(one.allows("get", "", "secrets", Some("token")));
        assert!(one.allows("list", "", "secrets", Some("token")));
        assert!(!one.allows("get", "", "secrets", Some("other")));
        assert!(!one.allows("list", "", "secrets", None));
    }

    #[test]
    fn a_permission_survives_json() {
        let permission = Permission::to::<Secret>([Verb::Get]).named(["a"]).in_namespace("b").because("c");
        let text = serde_json::to_string(&permission).expect("it is a plain structure");
        assert_eq!(serde_json::from_str::<Permission>(&text).expect("its own form"), permission);
    }
}

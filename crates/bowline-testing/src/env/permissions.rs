//! The comparison of an operator's requests with its permissions. Owns the requests that every user may send, and the line that
//! an author has to add.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bowline_apiserver::RequestAttributes;
use bowline_machinery::facts;
use bowline_runtime::Permission;

use super::TestEnv;

/// Requests that an operator sent without a permission; from [`TestEnv::missing_permissions`].
///
/// Its `Display` has a line for each missing declaration:
/// `create configmaps in test and 2 more: add '.writes::<ConfigMap>([Verb::Create, Verb::Delete])' to a controller`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingPermissions {
    missing: Vec<MissingPermission>,
}

/// Requests that one declaration would allow.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingPermission {
    /// The missing declaration, as code.
    pub declaration: String,
    /// The requests, in the order of their attributes; at least one.
    pub calls: Vec<RequestAttributes>,
}

impl MissingPermissions {
    /// Whether every request had a permission.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty()
    }

    /// The missing permissions, in the order of their declarations.
    pub fn iter(&self) -> impl Iterator<Item = &MissingPermission> {
        self.missing.iter()
    }
}

impl fmt::Display for MissingPermissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, MissingPermission { declaration, calls }) in self.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            for call in calls.iter().take(1) {
                write!(f, "{call}")?;
            }
            if calls.len() > 1 {
                write!(f, " and {} more", calls.len() - 1)?;
            }
            write!(f, ": add '{declaration}' to a controller")?;
        }
        Ok(())
    }
}

impl TestEnv {
    /// The requests of the operator so far, in all runs, that none of its permissions allows. [`finish`](Self::finish) fails if
    /// there are any, unless the [option](super::TestEnvBuilder::verify_permissions) is off.
    ///
    /// Permissions come from the declarations of controllers and manager: see
    /// [`ControllerBuilder`](bowline_runtime::ControllerBuilder#permissions). Verb, group, resource and name are compared;
    /// namespaces are not, because a test's operator works in the namespace of the test. Discovery, health and reviews of one's
    /// own access need no permission, as on a cluster. Requests to further clusters are not recorded.
    #[must_use]
    pub fn missing_permissions(&self) -> MissingPermissions {
        let permissions = self.permissions();
        let kinds = self.kinds();
        let mut missing = BTreeMap::<_, (BTreeSet<_>, Vec<_>)>::new();
        for (call, _) in self.calls().iter().filter(|(call, _)| !is_allowed(call, &permissions)) {
            let (declaration, verb) = declaration(call, &kinds);
            let (verbs, calls) = missing.entry(declaration).or_default();
            verbs.extend(verb);
            calls.push(call.clone());
        }
        let missing = missing.into_iter().map(|(declaration, (verbs, calls))| MissingPermission {
            declaration: declaration.with(&verbs),
            calls,
        });
        MissingPermissions { missing: missing.collect() }
    }

    /// The permissions that the operator declared with `reads`, `writes` or `permits`, with the verbs that it did not use so
    /// far. One test seldom uses all: look at the test that does the most.
    #[must_use]
    pub fn unused_permissions(&self) -> Vec<Permission> {
        let calls = self.calls();
        let is_used = |permission: &Permission, verb: &str| {
            calls
                .iter()
                .any(|(call, _)| call.verb == verb && is_allowed(call, std::slice::from_ref(permission)))
        };
        let declared = self.permissions().into_iter().filter(|permission| permission.is_declared);
        let unused = declared.map(|mut permission| {
            let all = permission.clone();
            permission.verbs.retain(|verb| !is_used(&all, verb));
            permission
        });
        unused.filter(|permission| !permission.verbs.is_empty()).collect()
    }

    pub(super) fn report_unused_permissions(&self) {
        for permission in self.unused_permissions() {
            eprintln!("declared, and not used by this test: {permission} ({})", permission.reason);
        }
    }

    /// The permissions of all runs.
    pub(super) fn permissions(&self) -> Vec<Permission> {
        let state = self.inner.lock();
        let mut all: BTreeSet<_> = state.permissions.clone();
        all.extend(state.run.manager.cluster().permissions());
        all.into_iter().collect()
    }

    /// Declared custom kinds by group and plural.
    fn kinds(&self) -> BTreeMap<(String, String), String> {
        let definitions = self.manager().crds().unwrap_or_default();
        let names = definitions.into_iter().map(|definition| definition.spec);
        names.map(|spec| ((spec.group, spec.names.plural), spec.names.kind)).collect()
    }
}

fn is_allowed(call: &RequestAttributes, permissions: &[Permission]) -> bool {
    let RequestAttributes { verb, group, resource, subresource, name, path, .. } = call;
    if let Some(path) = path {
        return is_public(verb, path);
    }
    let resource = match subresource {
        Some(subresource) => format!("{resource}/{subresource}"),
        None => resource.clone(),
    };
    is_own_review(verb, group, &resource)
        || permissions.iter().any(|permission| permission.allows(verb, group, &resource, name.as_deref()))
}

/// Whether every user may request this URL, by the cluster roles `system:discovery` and `system:public-info-viewer`.
fn is_public(verb: &str, path: &str) -> bool {
    let is_below =
        |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    matches!(verb, "get" | "head")
        && ["/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz"]
            .into_iter()
            .any(is_below)
}

/// Whether it is a question about the user's own access, which every user may ask by the cluster role `system:basic-user`.
fn is_own_review(verb: &str, group: &str, resource: &str) -> bool {
    verb == "create"
        && matches!(
            (group, resource),
            ("authorization.k8s.io", "selfsubjectaccessreviews" | "selfsubjectrulesreviews")
                | ("authentication.k8s.io", "selfsubjectreviews")
        )
}

/// A missing declaration as code: one that takes verbs has them between its two parts.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Declaration {
    begin: String,
    end: String,
}

impl Declaration {
    fn with(&self, verbs: &BTreeSet<&'static str>) -> String {
        let verbs: Vec<_> = verbs.iter().map(|verb| format!("Verb::{verb}")).collect();
        format!("{}{}{}", self.begin, verbs.join(", "), self.end)
    }
}

/// The declaration that allows a request, and its verb if it takes verbs.
fn declaration(
    call: &RequestAttributes,
    kinds: &BTreeMap<(String, String), String>,
) -> (Declaration, Option<&'static str>) {
    let RequestAttributes { verb, group, resource, subresource, path, .. } = call;
    let whole = |code: String| (Declaration { begin: code, end: String::new() }, None);
    if path.is_some() {
        return whole("a role for this URL, which Bowline does not write".to_owned());
    }
    let known = kinds.get(&(group.clone(), resource.clone())).map(String::as_str);
    let kind = known.or_else(|| {
        let mut resources = facts::resources().iter();
        resources.find(|facts| facts.group == group && facts.resource == resource).map(|facts| facts.kind)
    });
    let to = match kind {
        Some(kind) => format!("Permission::to::<{kind}>("),
        None => format!("Permission::to_resource({group:?}, {resource:?}, {}, ", call.namespace.is_some()),
    };
    let Some(client_verb) = client_verb(verb) else {
        return whole(format!(".permits({to}[]).verbs([{verb:?}]))"));
    };
    let (begin, end) = match (kind, subresource, client_verb) {
        (Some(kind), None, "Get" | "List") => return whole(format!(".reads::<{kind}>()")),
        (Some(kind), None, verb) if verb != "Watch" => (format!(".writes::<{kind}>(["), "])".to_owned()),
        (_, None, _) => (format!(".permits({to}["), "]))".to_owned()),
        (_, Some(name), _) => (format!(".permits({to}["), format!("]).subresource({name:?}))")),
    };
    (Declaration { begin, end }, Some(client_verb))
}

fn client_verb(verb: &str) -> Option<&'static str> {
    Some(match verb {
        "get" => "Get",
        "list" => "List",
        "watch" => "Watch",
        "create" => "Create",
        "update" => "Update",
        "patch" => "Patch",
        "delete" => "Delete",
        "deletecollection" => "DeleteAllOf",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use bowline_runtime::Verb;
    use http::Method;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn call(method: &Method, uri: &str) -> RequestAttributes {
        RequestAttributes::of(method, &uri.parse().expect("a URI"))
    }

    #[test]
    fn discovery_health_and_own_reviews_need_no_permission() {
        for path in ["/api", "/apis/apps/v1", "/version", "/openapi/v3/api/v1", "/readyz/ping"] {
            assert!(is_allowed(&call(&Method::GET, path), &[]), "{path}");
        }
        let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        assert!(is_allowed(&call(&Method::POST, review), &[]));
        for (method, path) in [
            (Method::POST, "/api"),
            (Method::GET, "/metrics"),
            (Method::GET, "/apisnot"),
            (Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
        ] {
            assert!(!is_allowed(&call(&method, path), &[]), "{method} {path}");
        }
    }

    #[test]
    fn a_permission_of_the_object_does_not_allow_its_subresource() {
        let update = [Permission::to::<ConfigMap>([Verb::Update])];
        assert!(is_allowed(&call(&Method::PUT, "/api/v1/namespaces/a/configmaps/b"), &update));
        assert!(!is_allowed(&call(&Method::PUT, "/api/v1/namespaces/a/configmaps/b/status"), &update));
    }

    #[test]
    fn the_declaration_names_the_kind_if_it_is_known() {
        let kinds = BTreeMap::from([(("x.io".to_owned(), "games".to_owned()), "Game".to_owned())]);
        let declared = |method: Method, uri: &str| {
            let (declaration, verb) = declaration(&call(&method, uri), &kinds);
            declaration.with(&verb.into_iter().collect())
        };
        assert_eq!(declared(Method::GET, "/api/v1/namespaces/a/secrets/b"), ".reads::<Secret>()");
        assert_eq!(
            declared(Method::DELETE, "/apis/x.io/v1/namespaces/a/games/b"),
            ".writes::<Game>([Verb::Delete])"
        );
        assert_eq!(
            declared(Method::POST, "/api/v1/namespaces/a/pods/b/eviction"),
            ".permits(Permission::to::<Pod>([Verb::Create]).subresource(\"eviction\"))"
        );
        assert_eq!(
            declared(Method::PATCH, "/apis/y.io/v1/others/b/status"),
            ".permits(Permission::to_resource(\"y.io\", \"others\", false, [Verb::Patch]).subresource(\"status\"))"
        );
    }
}

//! The path and method of a request, parsed. It does not know which resources exist.

use http::Method;
use percent_encoding::percent_decode_str;

/// Target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// `/healthz`, `/livez`, `/readyz`, and one check below them.
    Health {
        endpoint: Endpoint,
        check: Option<String>,
    },
    /// `/version`
    Version,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1`, `/apis/GROUP/VERSION`
    GroupVersion {
        group: String,
        version: String,
    },
    /// A resource, its objects and subresources.
    Resource(ResourcePath),
    /// `/`
    Root,
    Nowhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Healthz,
    Livez,
    Readyz,
}

/// A path to a resource, an object or a subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) resource: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// Whether the path has more segments than any resource, or empty ones.
    pub(crate) overlong: bool,
    /// Whether it is one of the deprecated `/watch/` paths.
    pub(crate) watch: bool,
}

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// `GET` of an object, or of a path without a resource.
    Get,
    /// `GET` of a collection.
    List,
    /// `GET` with `watch`.
    Watch,
    /// `POST`.
    Create,
    /// `PUT`.
    Update,
    /// `PATCH`.
    Patch,
    /// `DELETE` of an object.
    Delete,
    /// `DELETE` of a collection.
    DeleteCollection,
    /// Any other method, which is not supported.
    Other,
}

impl Verb {
    /// Name in RBAC and discovery.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Other => "",
        }
    }

    /// Verb of a resource request; `None` for a method that Kubernetes does not know.
    pub(crate) fn of(method: &Method, path: &ResourcePath, watch: bool) -> Option<Self> {
        let one = path.name.is_some();
        Some(match *method {
            Method::GET | Method::HEAD if path.watch => Self::Watch,
            _ if path.watch => return None,
            Method::GET | Method::HEAD if one => Self::Get,
            Method::GET | Method::HEAD if watch => Self::Watch,
            Method::GET | Method::HEAD => Self::List,
            Method::POST => Self::Create,
            Method::PUT => Self::Update,
            Method::PATCH => Self::Patch,
            Method::DELETE if one => Self::Delete,
            Method::DELETE => Self::DeleteCollection,
            _ => return None,
        })
    }

    /// Verb of a request without a resource, or with a method that resources never support.
    pub(crate) fn of_method(method: &Method) -> Self {
        match *method {
            Method::GET | Method::HEAD => Self::Get,
            Method::POST => Self::Create,
            Method::PUT => Self::Update,
            Method::PATCH => Self::Patch,
            Method::DELETE => Self::Delete,
            _ => Self::Other,
        }
    }
}

impl Target {
    pub(crate) fn as_resource(&self) -> Option<&ResourcePath> {
        match self {
            Self::Resource(path) => Some(path),
            _ => None,
        }
    }

    pub(crate) fn of(path: &str) -> Self {
        // An encoded slash separates as well.
        let Ok(path) = percent_decode_str(path).decode_utf8() else { return Self::Nowhere };
        let path = path.strip_prefix('/').unwrap_or(&path);
        // `/healthz/` differs from `/healthz`; all other paths ignore a slash at the end.
        let exact = matches!(path, "healthz/" | "livez/" | "readyz/");
        let parts: Vec<&str> = if exact { path } else { path.trim_end_matches('/') }.split('/').collect();
        match parts.as_slice() {
            [""] => Self::Root,
            ["version"] => Self::Version,
            ["healthz", check @ ..] => Self::health(Endpoint::Healthz, check),
            ["livez", check @ ..] => Self::health(Endpoint::Livez, check),
            ["readyz", check @ ..] => Self::health(Endpoint::Readyz, check),
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group((*group).to_owned()),
            ["api", version] => Self::GroupVersion { group: String::new(), version: (*version).to_owned() },
            ["apis", group, version] => {
                Self::GroupVersion { group: (*group).to_owned(), version: (*version).to_owned() }
            }
            ["api", version, rest @ ..] => Self::resource("", version, rest),
            ["apis", group, version, rest @ ..] => Self::resource(group, version, rest),
            _ => Self::Nowhere,
        }
    }

    fn health(endpoint: Endpoint, check: &[&str]) -> Self {
        match check {
            [] => Self::Health { endpoint, check: None },
            check => Self::Health { endpoint, check: Some(check.join("/")) },
        }
    }

    fn resource(group: &str, version: &str, rest: &[&str]) -> Self {
        let (watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        // A namespace has few subresources; all other words after its name are resources in it.
        let (namespace, rest) = match rest {
            ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => {
                (Some((*namespace).to_owned()).filter(|namespace| !namespace.is_empty()), rest)
            }
            rest => (None, rest),
        };
        let Some((resource, rest)) = rest.split_first() else { return Self::Nowhere };
        if resource.is_empty() {
            return Self::Nowhere;
        }
        Self::Resource(ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace,
            resource: (*resource).to_owned(),
            name: rest.first().map(|name| (*name).to_owned()),
            subresource: rest.get(1).map(|subresource| (*subresource).to_owned()),
            overlong: rest.len() > 2 || rest.contains(&""),
            watch,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(of: &str) -> ResourcePath {
        match Target::of(of) {
            Target::Resource(path) => path,
            other => panic!("{of} leads to {other:?}"),
        }
    }

    #[test]
    fn a_path_is_taken_apart_into_group_version_namespace_resource_name_and_subresource() {
        let pods = ResourcePath { version: "v1".into(), resource: "pods".into(), ..ResourcePath::default() };
        assert_eq!(path("/api/v1/pods"), pods);
        let pods = ResourcePath { namespace: Some("a".into()), ..pods };
        assert_eq!(path("/api/v1/namespaces/a/pods"), pods);
        let pod = ResourcePath { name: Some("b".into()), ..pods };
        assert_eq!(path("/api/v1/namespaces/a/pods/b"), pod);
        let status = ResourcePath { subresource: Some("status".into()), ..pod };
        assert_eq!(path("/api/v1/namespaces/a/pods/b/status"), status);
        let role = path("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode");
        assert_eq!(
            (role.group.as_str(), role.name.as_deref()),
            ("rbac.authorization.k8s.io", Some("system:node"))
        );
    }

    #[test]
    fn a_namespace_is_an_object_unless_a_resource_stands_behind_it() {
        let namespace = path("/api/v1/namespaces/a");
        assert_eq!((namespace.namespace, namespace.name.as_deref()), (None, Some("a")));
        let status = path("/api/v1/namespaces/a/status");
        assert_eq!((status.name.as_deref(), status.subresource.as_deref()), (Some("a"), Some("status")));
        assert_eq!(path("/api/v1/namespaces").resource, "namespaces");
    }

    #[test]
    fn what_is_no_resource_is_told_apart() {
        assert_eq!(Target::of("/"), Target::Root);
        assert_eq!(Target::of("/api"), Target::CoreVersions);
        assert_eq!(
            Target::of("/apis/apps/v1/"),
            Target::GroupVersion { group: "apps".into(), version: "v1".into() }
        );
        assert_eq!(
            Target::of("/livez/ping"),
            Target::Health { endpoint: Endpoint::Livez, check: Some("ping".into()) }
        );
        for nowhere in ["/nowhere", "/api/v1//", "/%ff", "/apis/a/b/watch/"] {
            let target = Target::of(nowhere);
            assert!(!matches!(target, Target::Health { .. } | Target::Version), "{nowhere}: {target:?}");
        }
    }
}

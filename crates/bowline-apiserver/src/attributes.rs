//! The attributes of a request for authorization. Owns the rules of Kubernetes' `RequestInfo` that concern
//! authorization.

use std::fmt;

use bowline_machinery::FieldSelector;
use http::{Method, Uri};

use crate::query::Query;
use crate::request::{Target, Verb};

/// The parts of a request that an RBAC rule is compared with.
///
/// It follows kube-apiserver: a list or watch of one object (`fieldSelector=metadata.name=NAME`) has that object's name, and
/// the object of a namespace is in this namespace. Whether the server has such a resource is not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct RequestAttributes {
    /// Verb of the rule: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`. Without a
    /// resource, the method in lower case.
    pub verb: String,
    /// API group; empty for the core group and without a resource.
    pub group: String,
    /// Resource, for example `pods`; empty for a non-resource URL.
    pub resource: String,
    /// Subresource, for example `status`.
    pub subresource: Option<String>,
    /// Namespace of the object or collection.
    pub namespace: Option<String>,
    /// Name of the object. None for a create and for a collection.
    pub name: Option<String>,
    /// Non-resource URL, for example `/version`.
    pub path: Option<String>,
}

impl RequestAttributes {
    /// The attributes of a request.
    #[must_use]
    pub fn of(method: &Method, uri: &Uri) -> Self {
        let Target::Resource(path) = Target::of(uri.path()) else {
            let verb = method.as_str().to_ascii_lowercase();
            return Self { verb, path: Some(uri.path().to_owned()), ..Self::default() };
        };
        let query = Query::parse(uri.query().unwrap_or_default());
        let verb = Verb::of(method, &path, query.watch).map_or("", Verb::as_str);
        let selected = || {
            let selector = FieldSelector::parse(&query.field_selector).ok()?;
            selector.exact("metadata.name").filter(|name| is_segment(name)).map(str::to_owned)
        };
        let is_collection = path.name.is_none() && matches!(verb, "list" | "watch");
        let name = if is_collection { selected() } else { path.name };
        let is_namespace = path.resource == "namespaces" && path.namespace.is_none();
        let namespace = if is_namespace && !is_collection { name.clone() } else { path.namespace };
        Self {
            verb: verb.to_owned(),
            group: path.group,
            resource: path.resource,
            subresource: path.subresource,
            namespace,
            name,
            path: None,
        }
    }
}

/// Whether a name can be a segment of a path.
fn is_segment(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '%'])
}

/// One line: `update deployments.apps/status test/web`, `list secrets in test`, `get /version`.
impl fmt::Display for RequestAttributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource, subresource, namespace, name, path } = self;
        if let Some(path) = path {
            return write!(f, "{verb} {path}");
        }
        write!(f, "{verb} {resource}")?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if let Some(subresource) = subresource {
            write!(f, "/{subresource}")?;
        }
        match (namespace, name) {
            (Some(namespace), Some(name)) => write!(f, " {namespace}/{name}"),
            (Some(namespace), None) => write!(f, " in {namespace}"),
            (None, Some(name)) => write!(f, " {name}"),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &Method, uri: &str) -> String {
        RequestAttributes::of(method, &uri.parse().expect("a URI")).to_string()
    }

    #[test]
    fn verbs_follow_from_method_name_and_watch() {
        let maps = "/api/v1/namespaces/a/configmaps";
        assert_eq!(of(&Method::GET, maps), "list configmaps in a");
        assert_eq!(of(&Method::GET, &format!("{maps}?watch=true")), "watch configmaps in a");
        assert_eq!(of(&Method::GET, &format!("{maps}/b")), "get configmaps a/b");
        assert_eq!(of(&Method::POST, maps), "create configmaps in a");
        assert_eq!(of(&Method::DELETE, maps), "deletecollection configmaps in a");
        assert_eq!(of(&Method::DELETE, &format!("{maps}/b")), "delete configmaps a/b");
        assert_eq!(
            of(&Method::PATCH, "/apis/apps/v1/namespaces/a/deployments/b/status"),
            "patch deployments.apps/status a/b"
        );
        assert_eq!(of(&Method::PUT, "/api/v1/nodes/b"), "update nodes b");
        assert_eq!(of(&Method::GET, "/api/v1/watch/pods"), "watch pods");
    }

    #[test]
    fn a_selector_of_one_name_is_the_name() {
        let one = "/api/v1/namespaces/a/secrets?watch=1&fieldSelector=metadata.name%3Db";
        assert_eq!(of(&Method::GET, one), "watch secrets a/b");
        let not = "/api/v1/namespaces/a/secrets?fieldSelector=metadata.name%21%3Db";
        assert_eq!(of(&Method::GET, not), "list secrets in a");
    }

    #[test]
    fn a_namespace_is_in_itself() {
        assert_eq!(of(&Method::GET, "/api/v1/namespaces/a"), "get namespaces a/a");
        assert_eq!(of(&Method::PUT, "/api/v1/namespaces/a/finalize"), "update namespaces/finalize a/a");
        assert_eq!(of(&Method::GET, "/api/v1/namespaces"), "list namespaces");
    }

    #[test]
    fn paths_of_no_resource_are_kept_without_their_query() {
        assert_eq!(of(&Method::GET, "/version?timeout=5s"), "get /version");
        assert_eq!(of(&Method::GET, "/apis/apps/v1"), "get /apis/apps/v1");
        assert_eq!(of(&Method::HEAD, "/readyz/ping"), "head /readyz/ping");
    }
}

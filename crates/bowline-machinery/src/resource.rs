//! Names of kinds and resources.

use std::fmt;

/// A group and a version: `apps/v1`, or `v1` in the core group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersion {
    /// Empty for the core group.
    pub group: String,
    /// For example `v1`.
    pub version: String,
}

/// The kind of an object in one version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    /// Empty for the core group.
    pub group: String,
    /// For example `v1`.
    pub version: String,
    /// For example `Deployment`.
    pub kind: String,
}

/// A resource in one version: the path under which objects of a kind are served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionResource {
    /// Empty for the core group.
    pub group: String,
    /// For example `v1`.
    pub version: String,
    /// For example `deployments`.
    pub resource: String,
}

/// A kind without its version; printed `Deployment.apps`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// Empty for the core group.
    pub group: String,
    /// For example `Deployment`.
    pub kind: String,
}

/// A resource without its version; printed `deployments.apps`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// Empty for the core group.
    pub group: String,
    /// For example `deployments`.
    pub resource: String,
}

impl GroupVersion {
    /// From its two parts.
    #[must_use]
    pub fn new(group: &str, version: &str) -> Self {
        Self { group: group.to_owned(), version: version.to_owned() }
    }

    /// From an object's `apiVersion`. `None` if it has more than one slash.
    #[must_use]
    pub fn parse(api_version: &str) -> Option<Self> {
        match api_version.split_once('/') {
            None => Some(Self::new("", api_version)),
            Some((_, version)) if version.contains('/') => None,
            Some((group, version)) => Some(Self::new(group, version)),
        }
    }
}

impl GroupVersionKind {
    /// From its three parts.
    #[must_use]
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
    }

    /// Without the version.
    #[must_use]
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }

    /// Without the kind.
    #[must_use]
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }
}

impl GroupVersionResource {
    /// From its three parts.
    #[must_use]
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        Self { group: group.to_owned(), version: version.to_owned(), resource: resource.to_owned() }
    }

    /// Without the version.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.resource.clone() }
    }
}

impl GroupKind {
    /// From its two parts.
    #[must_use]
    pub fn new(group: &str, kind: &str) -> Self {
        Self { group: group.to_owned(), kind: kind.to_owned() }
    }
}

impl GroupResource {
    /// From its two parts.
    #[must_use]
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: group.to_owned(), resource: resource.to_owned() }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for GroupVersionKind {
    /// As Go prints it: `apps/v1, Kind=Deployment`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.kind, &self.group)
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.resource, &self.group)
    }
}

fn dotted(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    if group.is_empty() { f.write_str(name) } else { write!(f, "{name}.{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_version_is_split_at_its_only_slash() {
        assert_eq!(GroupVersion::parse("v1"), Some(GroupVersion::new("", "v1")));
        assert_eq!(GroupVersion::parse("apps/v1"), Some(GroupVersion::new("apps", "v1")));
        assert_eq!(GroupVersion::parse("a/b/c"), None);
    }

    #[test]
    fn names_are_printed_with_their_group_last() {
        assert_eq!(GroupResource::new("apps", "deployments").to_string(), "deployments.apps");
        assert_eq!(GroupResource::new("", "pods").to_string(), "pods");
        assert_eq!(GroupKind::new("apps", "Deployment").to_string(), "Deployment.apps");
        assert_eq!(GroupVersionKind::new("", "v1", "Pod").to_string(), "/v1, Kind=Pod");
    }
}

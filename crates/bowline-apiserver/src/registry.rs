//! The served resources. Custom ones are added and removed, so readers take a snapshot.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use bowline_machinery::GroupVersion;

use crate::resource::Resource;

/// All resources at one time.
#[derive(Clone, Default)]
pub(crate) struct Resources {
    groups: BTreeMap<String, Group>,
}

#[derive(Clone, Default)]
pub(crate) struct Group {
    /// Versions, the preferred one first.
    pub(crate) versions: Vec<Version>,
}

#[derive(Clone)]
pub(crate) struct Version {
    pub(crate) version: String,
    /// Resources by plural name.
    pub(crate) resources: BTreeMap<String, Arc<Resource>>,
}

#[derive(Default)]
pub(crate) struct Registry {
    current: RwLock<Arc<Resources>>,
}

impl Registry {
    pub(crate) fn resources(&self) -> Arc<Resources> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn find(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Resource>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).find(group, version, resource).cloned()
    }

    /// Changes the resources; the change is atomic for readers.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Resources)) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut current));
    }
}

impl Resources {
    pub(crate) fn find(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Resource>> {
        self.version(group, version)?.resources.get(resource)
    }

    pub(crate) fn version(&self, group: &str, version: &str) -> Option<&Version> {
        self.groups.get(group)?.versions.iter().find(|known| known.version == version)
    }

    pub(crate) fn group(&self, group: &str) -> Option<&Group> {
        self.groups.get(group)
    }

    /// Groups by name, the core group first.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&str, &Group)> {
        self.groups.iter().map(|(name, group)| (name.as_str(), group))
    }

    /// Whether a group has built-in resources, and not only custom ones.
    pub(crate) fn is_built_in(&self, group: &str) -> bool {
        let versions = self.groups.get(group).into_iter().flat_map(|group| &group.versions);
        let mut resources = versions.flat_map(|version| version.resources.values());
        resources.any(|resource| !resource.behaviour.items_have_kind())
    }

    /// A resource in any of its versions.
    pub(crate) fn any(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.groups.get(group)?.versions.iter().find_map(|version| version.resources.get(plural))
    }

    /// A custom resource in any of its versions.
    pub(crate) fn custom(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        let versions = self.groups.get(group)?.versions.iter();
        versions.filter_map(|version| version.resources.get(plural)).find(|resource| is_custom(resource))
    }

    /// Whether a version of a group is built in: no definition can add to it.
    pub(crate) fn is_built_in_version(&self, group: &str, version: &str) -> bool {
        let found = self.version(group, version);
        found.is_some_and(|version| version.resources.values().any(|resource| !is_custom(resource)))
    }

    pub(crate) fn insert(&mut self, resource: Resource) {
        let GroupVersion { group, version } = resource.gvk.group_version();
        let group = self.groups.entry(group).or_default();
        let versions = &mut group.versions;
        if !versions.iter().any(|known| known.version == version) {
            versions.push(Version { version: version.clone(), resources: BTreeMap::new() });
            versions.sort_by_key(|known| Reverse(version_order(&known.version)));
        }
        let plural = resource.names.plural.clone();
        let mut resource = Some(Arc::new(resource));
        for known in versions.iter_mut().filter(|known| known.version == version) {
            known.resources.extend(resource.take().map(|resource| (plural.clone(), resource)));
        }
    }

    /// Removes a custom resource in all versions, and the versions and groups that are then empty.
    pub(crate) fn remove_custom(&mut self, group: &str, plural: &str) {
        let Some(known) = self.groups.get_mut(group) else { return };
        for version in &mut known.versions {
            version.resources.retain(|name, resource| name != plural || !is_custom(resource));
        }
        known.versions.retain(|version| !version.resources.is_empty());
        if known.versions.is_empty() {
            self.groups.remove(group);
        }
    }
}

fn is_custom(resource: &Resource) -> bool {
    resource.behaviour.items_have_kind()
}

/// The order of versions, ascending: `foo1` < `v1alpha1` < `v1beta1` < `v1` < `v2`.
pub(crate) fn version_order(version: &str) -> (u8, u64, u64, Reverse<String>) {
    let other = (0, 0, 0, Reverse(version.to_owned()));
    let nothing = Reverse(String::new());
    let Some(rest) = version.strip_prefix('v') else { return other };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (major, rest) = rest.split_at(digits);
    let Some(major) = number(major) else { return other };
    let (stability, minor) = match rest {
        "" => return (3, major, 0, nothing),
        rest if rest.starts_with("beta") => (2, &rest[4..]),
        rest if rest.starts_with("alpha") => (1, &rest[5..]),
        _ => return other,
    };
    number(minor).map_or(other, |minor| (stability, major, minor, nothing))
}

fn number(digits: &str) -> Option<u64> {
    let plain = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability_then_by_number() {
        let mut versions = vec![
            "foo10",
            "v1",
            "v10beta3",
            "v11alpha2",
            "v2",
            "foo1",
            "v12alpha1",
            "v3beta1",
            "v10",
            "v11beta2",
        ];
        versions.sort_by_key(|version| Reverse(version_order(version)));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]
        );
    }
}

//! A resource and its subresources, as in discovery documents. Owns the parsing of their lines in the table.

use super::table::malformed;

/// Discovery's data about a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceFacts {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The API version, `v1`.
    pub version: &'static str,
    /// The name in paths, `deployments`.
    pub resource: &'static str,
    /// The singular name, `deployment`.
    pub singular: &'static str,
    /// The kind of its objects, of the same group and version.
    pub kind: &'static str,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// The short names that kubectl accepts, `deploy`.
    pub short_names: Vec<&'static str>,
    /// The groups of resources that it belongs to, `all`.
    pub categories: Vec<&'static str>,
    /// The verbs, in alphabetical order.
    pub verbs: Vec<&'static str>,
    /// Its subresources, in alphabetical order.
    pub subresources: Vec<SubresourceFacts>,
}

/// Discovery's data about a subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubresourceFacts {
    /// The last part of its path, `scale`.
    pub name: &'static str,
    /// The API group of its kind.
    pub group: &'static str,
    /// The API version of its kind.
    pub version: &'static str,
    /// The kind of its objects.
    pub kind: &'static str,
    /// The verbs, in alphabetical order.
    pub verbs: Vec<&'static str>,
}

impl ResourceFacts {
    /// Reads the section of the table that holds the resources.
    pub(super) fn read(section: &'static str) -> Vec<Self> {
        let mut resources: Vec<Self> = Vec::with_capacity(section.len() / 100);
        for line in section.lines() {
            match line.strip_prefix(' ') {
                None => resources.push(Self::read_line(line)),
                Some(rest) => match resources.last_mut() {
                    Some(resource) => resource.subresources.push(SubresourceFacts::read_line(rest)),
                    None => malformed(line),
                },
            }
        }
        resources
    }

    fn read_line(line: &'static str) -> Self {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_else(|| malformed(line));
        let (group, version) = group_and_version(word());
        Self {
            group,
            version,
            resource: word(),
            singular: word(),
            kind: word(),
            namespaced: word() == "namespaced",
            short_names: names(word()),
            categories: names(word()),
            verbs: names(word()),
            subresources: Vec::new(),
        }
    }
}

impl SubresourceFacts {
    fn read_line(line: &'static str) -> Self {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_else(|| malformed(line));
        let name = word();
        let (group, version) = group_and_version(word());
        Self { name, group, version, kind: word(), verbs: names(word()) }
    }
}

fn group_and_version(word: &'static str) -> (&'static str, &'static str) {
    word.split_once('/').unwrap_or(("", word))
}

fn names(word: &'static str) -> Vec<&'static str> {
    if word == "-" { Vec::new() } else { word.split(',').collect() }
}

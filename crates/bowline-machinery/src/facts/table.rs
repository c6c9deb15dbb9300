//! The generated table: its sections, and lookups in it.
//!
//! `kinds.txt` is a comment and three sections, with an empty line between them:
//!
//! - kinds, sorted: `apps/v1 Deployment apps/v1.Deployment` is group and version, kind, type;
//! - resources: `apps/v1 deployments deployment Deployment namespaced deploy all create,get` is group and version,
//!   name, singular, kind, scope, short names, categories, verbs, with `-` for an empty list; a line that starts with
//!   a space is a subresource of the one above: ` scale autoscaling/v1 Scale get,patch` is name, group and version of
//!   the kind, kind, verbs;
//! - types, sorted by name. `core/v1.Protocol string` is another name for a type. `core/v1.Volume { name::1:string`
//!   is a struct with its fields, in Go's order, as [`Field`](super::Field) reads them.

use std::sync::LazyLock;

use super::go_type::TypeRef;
use super::resource_facts::ResourceFacts;
use super::slot::Slot;

const TEXT: &str = include_str!("kinds.txt");

/// The group under which kinds of every group are stored.
const EVERYWHERE: (&str, &str) = ("meta.k8s.io", "v1");

/// The one table. It never changes, so that it is not global state.
static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(TEXT));

pub(super) fn table() -> &'static Table {
    &TABLE
}

#[derive(Debug)]
pub(super) struct Table {
    kinds: Vec<Kind>,
    resources: Vec<ResourceFacts>,
    types: Vec<Slot>,
}

#[derive(Debug)]
struct Kind {
    group_version: &'static str,
    name: &'static str,
    type_name: &'static str,
}

impl Table {
    fn read(text: &'static str) -> Self {
        let mut sections = text.splitn(4, "\n\n").skip(1);
        let mut section = || sections.next().unwrap_or_else(|| malformed("the end"));
        let kinds = section().lines().map(|line| {
            let mut words = line.split(' ');
            let mut word = || words.next().unwrap_or_else(|| malformed(line));
            Kind { group_version: word(), name: word(), type_name: word() }
        });
        let kinds = kinds.collect();
        let resources = ResourceFacts::read(section());
        let types = section().lines().map(|line| {
            let (name, body) = line.split_once(' ').unwrap_or_else(|| malformed(line));
            Slot::new(name, body)
        });
        Self { kinds, resources, types: types.collect() }
    }

    pub(super) fn resources(&self) -> &[ResourceFacts] {
        &self.resources
    }

    pub(super) fn type_of(&'static self, group: &str, version: &str, kind: &str) -> Option<TypeRef> {
        let name = self
            .type_name(group, version, kind)
            .or_else(|| self.type_name(EVERYWHERE.0, EVERYWHERE.1, kind))?;
        self.slot(name).map(TypeRef::new)
    }

    /// The type with a name in the table's notation.
    pub(super) fn slot(&'static self, name: &str) -> Option<&'static Slot> {
        self.types.binary_search_by(|slot| slot.name().cmp(name)).ok().map(|at| &self.types[at])
    }

    fn type_name(&self, group: &str, version: &str, kind: &str) -> Option<&'static str> {
        // Compares like `group/version`, without allocating it.
        let wanted = [group, if group.is_empty() { "" } else { "/" }, version];
        let wanted = || wanted.iter().flat_map(|part| part.bytes());
        let found = self.kinds.binary_search_by(|known| {
            known.group_version.bytes().cmp(wanted()).then_with(|| known.name.cmp(kind))
        });
        found.ok().map(|at| self.kinds[at].type_name)
    }
}

/// Generator and parser disagree, which the tests detect.
pub(super) fn malformed(part: &str) -> ! {
    panic!("kinds.txt is malformed at {part:?}: run `cargo xtask facts`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_the_table_can_be_read_and_every_kind_has_one() {
        let table = table();
        for slot in &table.types {
            assert_eq!(TypeRef::new(slot).name(), slot.name());
            for field in TypeRef::new(slot).fields() {
                assert!(!field.name().is_empty(), "{slot:?}");
            }
        }
        for kind in &table.kinds {
            assert!(table.slot(kind.type_name).is_some(), "{kind:?}");
        }
    }

    #[test]
    fn every_resource_and_subresource_is_of_a_known_kind() {
        let table = table();
        assert!(table.resources().len() > 60);
        for resource in table.resources() {
            assert!(
                table.type_of(resource.group, resource.version, resource.kind).is_some(),
                "{}",
                resource.resource
            );
            for sub in &resource.subresources {
                assert!(table.type_of(sub.group, sub.version, sub.kind).is_some(), "{sub:?}");
            }
        }
    }
}

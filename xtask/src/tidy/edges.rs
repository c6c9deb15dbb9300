//! The check of who may know whom: the edges between the crates of the workspace, as ARCHITECTURE.md draws them.
//!
//! Owns the table. Only normal dependencies count: a test may know anybody, and no user of a crate builds its tests.

use super::problem::Problem;
use crate::metadata::Package;

/// Whom a crate may know within the workspace.
enum Knows {
    Everybody,
    EverybodyBut(&'static [&'static str]),
    Only(&'static [&'static str]),
}

use Knows::{Everybody, EverybodyBut, Only};

/// Crates that do not exist yet are here too: their place is decided before their code is written.
const TABLE: &[(&str, Knows)] = &[
    ("bowline-clock", Only(&[])),
    ("bowline-machinery", Only(&["bowline-clock"])),
    ("bowline-workqueue", Only(&["bowline-clock"])),
    ("bowline-storage", Only(&["bowline-clock"])),
    ("bowline-cache", Only(&["bowline-clock", "bowline-machinery"])),
    ("bowline-runtime", Only(&["bowline-cache", "bowline-clock", "bowline-machinery", "bowline-workqueue"])),
    ("bowline-webhook", Only(&["bowline-clock", "bowline-machinery", "bowline-runtime"])),
    ("bowline-manifests", Only(&["bowline-machinery", "bowline-runtime", "bowline-webhook"])),
    ("bowline-apiserver", Only(&["bowline-clock", "bowline-machinery", "bowline-storage"])),
    (
        "bowline-controlplane",
        Only(&["bowline-apiserver", "bowline-clock", "bowline-machinery", "bowline-runtime"]),
    ),
    (
        "bowline-testing",
        Only(&[
            "bowline-apiserver",
            "bowline-cache",
            "bowline-clock",
            "bowline-controlplane",
            "bowline-machinery",
            "bowline-runtime",
        ]),
    ),
    // What an operator ships holds no control plane and no tools.
    (
        "bowline",
        EverybodyBut(&[
            "bowline-apiserver",
            "bowline-bench",
            "bowline-cli",
            "bowline-controlplane",
            "bowline-storage",
            "bowline-testing",
            "xtask",
        ]),
    ),
    // What an author would write: the façade, and the embedded server to run on.
    ("pod-printer", Only(&["bowline", "bowline-apiserver"])),
    ("sample-controller", Only(&["bowline", "bowline-apiserver"])),
    ("bowline-cli", Everybody),
    ("bowline-bench", Everybody),
    ("xtask", Everybody),
];

pub(super) fn problems(members: &[&Package]) -> Vec<Problem> {
    members.iter().flat_map(|member| problems_of(member, members)).collect()
}

fn problems_of(member: &Package, members: &[&Package]) -> Vec<Problem> {
    let Some(knows) = knows(&member.name) else {
        let message = format!("{} is new: say in xtask/src/tidy/edges.rs whom it may know", member.name);
        return vec![Problem::new(&member.manifest_path, message)];
    };
    let normal = member.dependencies.iter().filter(|dependency| dependency.kind.is_none());
    let inside = normal.filter(|dependency| members.iter().any(|other| other.name == dependency.name));
    let forbidden = inside.filter(|dependency| !knows.allows(&dependency.name));
    forbidden
        .map(|dependency| {
            let message = format!(
                "{} may not know {}: remove the dependency, or change the table in xtask/src/tidy/edges.rs and say why",
                member.name, dependency.name
            );
            Problem::new(&member.manifest_path, message)
        })
        .collect()
}

fn knows(name: &str) -> Option<&'static Knows> {
    TABLE.iter().find(|(member, _)| *member == name).map(|(_, knows)| knows)
}

impl Knows {
    fn allows(&self, name: &str) -> bool {
        match self {
            Everybody => true,
            EverybodyBut(names) => !names.contains(&name),
            Only(names) => names.contains(&name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::problem::printed;
    use super::*;
    use crate::metadata::{Dependency, SpecialKind};

    fn member(name: &str, dependencies: &[(&str, Option<SpecialKind>)]) -> Package {
        let dependency =
            |&(name, kind): &(&str, _)| Dependency { name: name.to_owned(), kind, ..Dependency::default() };
        Package {
            name: name.to_owned(),
            manifest_path: format!("crates/{name}/Cargo.toml"),
            dependencies: dependencies.iter().map(dependency).collect(),
            ..Package::default()
        }
    }

    #[test]
    fn an_edge_that_is_not_in_the_table_is_reported() {
        let clock = member("bowline-clock", &[("bowline-workqueue", None), ("tokio", None)]);
        let queue = member("bowline-workqueue", &[("bowline-clock", None)]);
        assert_eq!(
            printed(&problems(&[&clock, &queue])),
            [
                "crates/bowline-clock/Cargo.toml: bowline-clock may not know bowline-workqueue: remove the dependency, \
              or change the table in xtask/src/tidy/edges.rs and say why"
            ]
        );
    }

    #[test]
    fn the_facade_knows_no_control_plane() {
        let facade = member("bowline", &[("bowline-apiserver", None), ("bowline-runtime", None)]);
        let (server, runtime) = (member("bowline-apiserver", &[]), member("bowline-runtime", &[]));
        let found = printed(&problems(&[&facade, &server, &runtime]));
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("bowline may not know bowline-apiserver"), "{found:?}");
    }

    #[test]
    fn a_test_may_know_anybody() {
        let clock = member("bowline-clock", &[("bowline-workqueue", Some(SpecialKind::Dev))]);
        let queue = member("bowline-workqueue", &[]);
        assert_eq!(problems(&[&clock, &queue]), []);
    }

    #[test]
    fn a_crate_without_a_place_in_the_table_is_reported() {
        assert_eq!(
            printed(&problems(&[&member("bowline-kite", &[])])),
            [
                "crates/bowline-kite/Cargo.toml: bowline-kite is new: say in xtask/src/tidy/edges.rs whom it may know"
            ]
        );
    }

    #[test]
    fn every_crate_that_the_table_names_has_a_place_of_its_own() {
        for (member, knows) in TABLE {
            let (Only(names) | EverybodyBut(names)) = knows else { continue };
            for name in *names {
                assert!(self::knows(name).is_some(), "{member} names {name}, which the table does not have");
            }
        }
    }

    #[test]
    fn the_table_has_no_circle() {
        fn visit(name: &str, above: &[&str]) {
            assert!(!above.contains(&name), "{above:?} leads back to {name}");
            if let Some(Only(names)) = knows(name) {
                for next in *names {
                    visit(next, &[above, &[name]].concat());
                }
            }
        }
        for (name, _) in TABLE {
            visit(name, &[]);
        }
    }
}

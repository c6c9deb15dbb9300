//! Checks the dependencies between the crates of the workspace against the table below, which ARCHITECTURE.md describes.
//!
//! Owns the table. Only normal dependencies count: tests may use any crate, since users of a crate do not build its
//! tests.

use super::problem::Problem;
use crate::metadata::Package;

/// The crates of the workspace that a crate may use.
enum MayUse {
    All,
    AllBut(&'static [&'static str]),
    Only(&'static [&'static str]),
}

use MayUse::{All, AllBut, Only};

/// Also contains crates that do not exist yet: their dependencies are decided before their code is written.
const TABLE: &[(&str, MayUse)] = &[
    ("bowline-clock", Only(&[])),
    ("bowline-macros", Only(&[])),
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
    // A shipped operator has no control plane and no tools.
    (
        "bowline",
        AllBut(&[
            "bowline-apiserver",
            "bowline-bench",
            "bowline-cli",
            "bowline-controlplane",
            "bowline-storage",
            "bowline-testing",
            "xtask",
        ]),
    ),
    // As an operator outside of this workspace: the façade alone.
    ("greeting", Only(&["bowline"])),
    ("pod-printer", Only(&["bowline"])),
    ("sample-controller", Only(&["bowline"])),
    ("bowline-cli", All),
    ("bowline-bench", All),
    ("xtask", All),
];

/// Edges beside the table that must be optional dependencies, each with the feature that switches it on. The feature is off by
/// default.
const OPTIONAL: &[(&str, &str, &str)] = &[("bowline", "bowline-apiserver", "plane")];

pub(super) fn problems(members: &[&Package]) -> Vec<Problem> {
    members.iter().flat_map(|member| problems_of(member, members)).collect()
}

fn problems_of(member: &Package, members: &[&Package]) -> Vec<Problem> {
    let Some(may_use) = may_use(&member.name) else {
        let message =
            format!("{} is new: add the crates that it may use to xtask/src/tidy/edges.rs", member.name);
        return vec![Problem::new(&member.manifest_path, message)];
    };
    let normal = member.dependencies.iter().filter(|dependency| dependency.kind.is_none());
    let inside = normal.filter(|dependency| members.iter().any(|other| other.name == dependency.name));
    let forbidden = inside.filter_map(|dependency| {
        let (user, used) = (&member.name, &dependency.name);
        if may_use.allows(used) {
            return None;
        }
        let optional = OPTIONAL.iter().find(|(from, to, _)| from == user && to == used);
        match optional {
            Some(_) if dependency.optional => None,
            Some((_, _, feature)) => {
                Some(format!("{user} may use {used} only with the feature {feature}: make the dependency optional"))
            }
            None => Some(format!(
                "{user} may not use {used}: remove the dependency, or change the table in xtask/src/tidy/edges.rs and say why"
            )),
        }
    });
    forbidden.map(|message| Problem::new(&member.manifest_path, message)).collect()
}

fn may_use(name: &str) -> Option<&'static MayUse> {
    TABLE.iter().find(|(member, _)| *member == name).map(|(_, may_use)| may_use)
}

impl MayUse {
    fn allows(&self, name: &str) -> bool {
        match self {
            All => true,
            AllBut(names) => !names.contains(&name),
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
                "crates/bowline-clock/Cargo.toml: bowline-clock may not use bowline-workqueue: remove the dependency, \
              or change the table in xtask/src/tidy/edges.rs and say why"
            ]
        );
    }

    #[test]
    fn the_facade_uses_the_api_server_only_as_an_optional_dependency() {
        let mut facade = member("bowline", &[("bowline-apiserver", None), ("bowline-runtime", None)]);
        let (server, runtime) = (member("bowline-apiserver", &[]), member("bowline-runtime", &[]));
        let message = "crates/bowline/Cargo.toml: bowline may use bowline-apiserver only with the feature plane: make the \
                       dependency optional";
        assert_eq!(printed(&problems(&[&facade, &server, &runtime])), [message]);
        facade.dependencies[0].optional = true;
        assert_eq!(problems(&[&facade, &server, &runtime]), []);
    }

    #[test]
    fn an_optional_dependency_outside_of_the_table_is_reported() {
        let mut facade = member("bowline", &[("bowline-storage", None)]);
        facade.dependencies[0].optional = true;
        let found = printed(&problems(&[&facade, &member("bowline-storage", &[])]));
        assert!(found[0].contains("bowline may not use bowline-storage"), "{found:?}");
    }

    #[test]
    fn a_test_may_use_any_crate() {
        let clock = member("bowline-clock", &[("bowline-workqueue", Some(SpecialKind::Dev))]);
        let queue = member("bowline-workqueue", &[]);
        assert_eq!(problems(&[&clock, &queue]), []);
    }

    #[test]
    fn a_crate_without_a_place_in_the_table_is_reported() {
        assert_eq!(
            printed(&problems(&[&member("bowline-kite", &[])])),
            [
                "crates/bowline-kite/Cargo.toml: bowline-kite is new: add the crates that it may use to xtask/src/tidy/edges.rs"
            ]
        );
    }

    #[test]
    fn every_crate_that_the_table_names_has_a_place_of_its_own() {
        for (member, may_use) in TABLE {
            let (Only(names) | AllBut(names)) = may_use else { continue };
            for name in *names {
                assert!(
                    self::may_use(name).is_some(),
                    "{member} names {name}, which the table does not have"
                );
            }
        }
    }

    #[test]
    fn the_table_has_no_circle() {
        fn visit(name: &str, above: &[&str]) {
            assert!(!above.contains(&name), "{above:?} leads back to {name}");
            if let Some(Only(names)) = may_use(name) {
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

//! Checks for banned crates. Owns the list and the reasons.

use super::problem::Problem;
use crate::metadata::{Dependency, Package};

/// Banned everywhere, also as an indirect dependency.
const ANYWHERE: &[(&str, &str)] = &[
    ("native-tls", "it is another TLS on every platform: use rustls"),
    ("openssl-sys", "it needs a C library wherever an operator is built: use rustls"),
];

/// Banned as a direct dependency of any kind; third-party packages may use them.
const DIRECT: &[(&str, &str)] = &[
    ("chrono", "time comes from bowline-clock, so that a simulation owns it"),
    ("lazy_static", "use std::sync::LazyLock, and no global state"),
    ("once_cell", "use std::sync::OnceLock or std::sync::LazyLock"),
];

/// The peer runtime: tests and the bench compare with it, the crates do not use it.
const PEER: &str = "kube-runtime";
const PEER_REASON: &str = "Bowline has a runtime of its own: compare with it in dev-dependencies or in bench";

pub(super) fn problems(members: &[&Package], outsiders: &[&Package]) -> Vec<Problem> {
    let direct = members.iter().flat_map(|member| {
        let reasons = member.dependencies.iter().filter_map(|dependency| {
            let reason = reason_against(dependency, member)?;
            Some(format!("{} may not depend on {}: {reason}", member.name, dependency.name))
        });
        reasons.map(|message| Problem::new(&member.manifest_path, message))
    });
    let anywhere = outsiders.iter().filter_map(|package| {
        let reason = reason_in(ANYWHERE, &package.name)?;
        let message = format!(
            "{name} is in the build: {reason} (who needs it: `cargo tree -i {name}`)",
            name = package.name
        );
        Some(Problem::new("Cargo.lock", message))
    });
    direct.chain(anywhere).collect()
}

fn reason_against(dependency: &Dependency, member: &Package) -> Option<&'static str> {
    reason_in(DIRECT, &dependency.name).or_else(|| {
        let ships = member.is_under_crates() && dependency.kind.is_none();
        (ships && is_peer(dependency)).then_some(PEER_REASON)
    })
}

/// `kube` re-exports the peer under a feature, which counts too.
fn is_peer(Dependency { name, features, .. }: &Dependency) -> bool {
    let asks_for_runtime =
        features.iter().any(|feature| feature == "runtime" || feature.starts_with("unstable-runtime"));
    name == PEER || name == "kube" && asks_for_runtime
}

fn reason_in(list: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    list.iter().find(|(banned, _)| *banned == name).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::super::problem::printed;
    use super::*;
    use crate::metadata::SpecialKind;

    fn member(directory: &str, dependency: Dependency) -> Package {
        Package {
            name: "a".to_owned(),
            manifest_path: format!("{directory}/Cargo.toml"),
            dependencies: vec![dependency],
            ..Package::default()
        }
    }

    fn normal(name: &str) -> Dependency {
        Dependency { name: name.to_owned(), ..Dependency::default() }
    }

    fn dev(name: &str) -> Dependency {
        Dependency { kind: Some(SpecialKind::Dev), ..normal(name) }
    }

    fn messages(member: &Package) -> Vec<String> {
        printed(&problems(&[member], &[]))
    }

    #[test]
    fn a_package_that_is_banned_anywhere_is_reported() {
        let package = |name: &str| Package { name: name.to_owned(), ..Package::default() };
        let found =
            printed(&problems(&[], &[&package("openssl-sys"), &package("rustls"), &package("native-tls")]));
        assert_eq!(found.len(), 2);
        assert!(
            found[0].starts_with("Cargo.lock: openssl-sys is in the build: it needs a C library"),
            "{found:?}"
        );
        assert!(found[1].starts_with("Cargo.lock: native-tls is in the build: "), "{found:?}");
    }

    #[test]
    fn a_direct_dependency_that_std_replaces_is_reported() {
        assert_eq!(
            messages(&member("xtask", dev("once_cell"))),
            [
                "xtask/Cargo.toml: a may not depend on once_cell: use std::sync::OnceLock or std::sync::LazyLock"
            ]
        );
        assert_eq!(messages(&member("crates/a", normal("lazy_static"))).len(), 1);
        assert_eq!(messages(&member("bench", normal("chrono"))).len(), 1);
    }

    #[test]
    fn an_indirect_dependency_that_std_replaces_is_fine() {
        let package = Package { name: "once_cell".to_owned(), ..Package::default() };
        assert_eq!(problems(&[], &[&package]), []);
    }

    #[test]
    fn a_crate_that_ships_the_peer_is_reported() {
        let reason = "Bowline has a runtime of its own: compare with it in dev-dependencies or in bench";
        assert_eq!(
            messages(&member("crates/a", normal("kube-runtime"))),
            [format!("crates/a/Cargo.toml: a may not depend on kube-runtime: {reason}")]
        );
        let kube = Dependency { features: vec!["runtime".to_owned()], ..normal("kube") };
        assert_eq!(
            messages(&member("crates/a", kube)),
            [format!("crates/a/Cargo.toml: a may not depend on kube: {reason}")]
        );
        assert_eq!(messages(&member("crates/a", normal("kube"))), [""; 0]);
    }

    #[test]
    fn tests_and_the_bench_may_compare_with_the_peer() {
        assert_eq!(messages(&member("crates/a", dev("kube-runtime"))), [""; 0]);
        assert_eq!(messages(&member("bench", normal("kube-runtime"))), [""; 0]);
    }
}

//! The check of shipped operators: built without default features, an example links no control plane, and the façade links none
//! with its default features.
//!
//! Compares names. `cargo tree` resolves the features.

use std::collections::BTreeMap;

use super::problem::Problem;

/// Crates for development only.
const DEVELOPMENT: &[&str] =
    &["bowline-apiserver", "bowline-controlplane", "bowline-storage", "bowline-testing"];

/// `trees` has the names of all crates that a package links, by the package's manifest.
pub(super) fn problems(trees: &BTreeMap<String, Vec<String>>) -> Vec<Problem> {
    let linked = trees.iter().flat_map(|(manifest, tree)| {
        let found = DEVELOPMENT.iter().filter(|name| tree.iter().any(|linked| linked == *name));
        found.map(move |name| {
            let message =
                format!("a shipped build links {name}: put it behind a feature that such a build leaves out");
            Problem::new(manifest, message)
        })
    });
    linked.collect()
}

#[cfg(test)]
mod tests {
    use super::super::problem::printed;
    use super::*;

    #[test]
    fn a_shipped_build_that_links_the_api_server_is_reported() {
        let tree = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let trees = BTreeMap::from([
            ("examples/a/Cargo.toml".to_owned(), tree(&["a", "bowline", "bowline-apiserver"])),
            ("examples/b/Cargo.toml".to_owned(), tree(&["b", "bowline", "bowline-runtime"])),
        ]);
        assert_eq!(
            printed(&problems(&trees)),
            [
                "examples/a/Cargo.toml: a shipped build links bowline-apiserver: put it behind a feature that such a build leaves \
                 out"
            ]
        );
    }
}

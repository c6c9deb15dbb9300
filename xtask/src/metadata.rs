//! The part of `cargo metadata` that the checks use. Owns the types, not the call.

use std::path::Path;

use serde::Deserialize;

/// All packages of the build, those of the workspace and those from outside.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    workspace_root: String,
}

impl Metadata {
    /// The directory of the workspace's `Cargo.toml`.
    pub(crate) fn root(&self) -> &Path {
        Path::new(&self.workspace_root)
    }

    /// The packages of the workspace.
    pub(crate) fn members(&self) -> Vec<&Package> {
        self.packages.iter().filter(|package| self.is_member(package)).collect()
    }

    /// Third-party packages, direct and indirect, for all platforms.
    pub(crate) fn outsiders(&self) -> Vec<&Package> {
        self.packages.iter().filter(|package| !self.is_member(package)).collect()
    }

    /// Makes every path relative to the root of the workspace, with `/` between its parts, as git prints them.
    #[must_use]
    pub(crate) fn with_relative_paths(mut self) -> Self {
        for package in &mut self.packages {
            relative(&mut package.manifest_path, &self.workspace_root);
            for target in &mut package.targets {
                relative(&mut target.src_path, &self.workspace_root);
            }
        }
        self
    }

    fn is_member(&self, package: &Package) -> bool {
        self.workspace_members.contains(&package.id)
    }
}

/// One package.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) description: Option<String>,
    pub(crate) license: Option<String>,
    pub(crate) manifest_path: String,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

impl Package {
    /// Whether this is a crate of Bowline, not a developer tool.
    pub(crate) fn is_under_crates(&self) -> bool {
        self.manifest_path.starts_with("crates/")
    }

    /// Whether this is an operator to read.
    pub(crate) fn is_example(&self) -> bool {
        self.manifest_path.starts_with("examples/")
    }
}

/// One dependency as a package's manifest states it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Absent for a normal dependency.
    pub(crate) kind: Option<SpecialKind>,
    #[serde(default)]
    pub(crate) optional: bool,
    pub(crate) features: Vec<String>,
}

/// Purpose of a dependency that is not a normal one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SpecialKind {
    Dev,
    Build,
}

/// One root file that cargo compiles: a library, a binary, a test or an example.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Target {
    pub(crate) src_path: String,
}

fn relative(path: &mut String, root: &str) {
    if let Some(rest) = path.strip_prefix(root) {
        *path = rest.trim_start_matches(['/', '\\']).replace('\\', "/");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_outsiders_are_told_apart_and_paths_are_relative() {
        let metadata: Metadata = serde_json::from_str(
            r#"{
                "packages": [
                    {"id": "a", "name": "bowline", "version": "0.1.0", "description": "x", "license": "Apache-2.0",
                     "manifest_path": "/home/w/crates/bowline/Cargo.toml",
                     "dependencies": [
                        {"name": "slab", "kind": null, "features": []},
                        {"name": "insta", "kind": "dev", "features": ["x"]}
                     ],
                     "targets": [{"src_path": "/home/w/crates/bowline/src/lib.rs", "name": "bowline"}]},
                    {"id": "b", "name": "slab", "version": "0.4.0", "description": null, "license": null,
                     "manifest_path": "/registry/slab/Cargo.toml", "dependencies": [], "targets": []}
                ],
                "workspace_members": ["a"],
                "workspace_root": "/home/w"
            }"#,
        )
        .unwrap();
        let metadata = metadata.with_relative_paths();

        let [member] = metadata.members()[..] else { panic!("one member") };
        assert_eq!(member.manifest_path, "crates/bowline/Cargo.toml");
        assert_eq!(member.targets[0].src_path, "crates/bowline/src/lib.rs");
        assert_eq!(member.dependencies[0].kind, None);
        assert_eq!(member.dependencies[1].kind, Some(SpecialKind::Dev));
        let [outsider] = metadata.outsiders()[..] else { panic!("one outsider") };
        assert_eq!(outsider.name, "slab");
    }
}
